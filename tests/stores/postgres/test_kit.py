"""The kit on the PostgreSQL store (§13)."""

import pytest

from tests.postgres import Server
from tests.stores.postgres.makers import kind_on
from treadle_specs.kits import Faults
from treadle_specs.kits.store import checks_for, run_check
from treadle_specs.kits.store_bench import Check

ALL = Faults(**dict.fromkeys(("spoil", "steal", "jam", "delete", "rename", "copy", "cut", "revoke"), lambda *_: None))  # type: ignore[arg-type]


@pytest.mark.rule("P1", "P2", "P3", "P5", "P6")
@pytest.mark.parametrize("check", checks_for(ALL), ids=lambda check: check.__name__)
def test_the_store_keeps_each_promise(postgres: Server, check: Check) -> None:
    kind = kind_on(postgres)
    run_check(check, kind.make, kind.faults)
