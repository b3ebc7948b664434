"""Whole hosts under drawn programs: on a store in memory that fails, on files, and on a database; killed and opened anew."""

from __future__ import annotations

from typing import Any

import pytest

from tests.specs.machines.storages import KINDS
from treadle_specs.machines.budget import chosen, run_machine
from treadle_specs.machines.host.machine import HostMachine

RULES = ("C2", "C10", "D4", "D8", "H3", "H4", "I5", "I6", "K4", "K5", "K6", "L2", "L5", "L6", "M1", "N2", "N4", "N7", "O4", "O6",
         "O9", "O12", "P1", "P4", "P7", "P8", "Q2", "Q6", "Q9", "S5",
         "Z1", "Z2", "Z3", "Z4", "Z6", "Z7")  # fmt: skip


def machine(kind: str) -> Any:
    return type(f"On{kind}", (HostMachine,), {"storages": (KINDS[kind],)})


@pytest.mark.slow
@pytest.mark.rule(*RULES)
@pytest.mark.parametrize(("kind", "programs"), [("memory", 60), ("jsonl", 12), ("sqlite", 12)])
def test_a_host_keeps_its_promises_whatever_is_asked_of_it(kind: str, programs: int) -> None:
    run_machine(machine(kind), chosen(programs))


@pytest.mark.slow
@pytest.mark.rule(*RULES)
@pytest.mark.parametrize(("kind", "programs"), [("memory", 100), ("jsonl", 25), ("sqlite", 25)])
def test_it_keeps_them_in_long_programs(kind: str, programs: int) -> None:
    run_machine(machine(kind), chosen(programs, 50))
