"""The kit on every store that ships, and on stores that break a promise."""

import pytest

from treadle_specs.store_kit import Check, checks_for, run_check

from .makers import KINDS, Kind

CASES = [
    pytest.param(kind, check, id=f"{kind}-{check.__name__}") for kind in KINDS for check in checks_for(kind.faults)
]


@pytest.mark.rule("P1", "P2", "P3", "P5", "P6")
@pytest.mark.parametrize(("kind", "check"), CASES)
def test_a_store_keeps_each_promise(kind: Kind, check: Check) -> None:
    run_check(check, kind.make, kind.faults)
