"""How often each rule was really at stake: a rule that nothing put to the test is not held, but unknown (§7).

A check that cannot fail in the situation at hand counts for nothing. So each check says when something was at stake,
and where a rule is kept by something not happening, the moment at which it might have happened is counted.
"""

from __future__ import annotations

from collections import Counter

from ..exploration.violation import require


class Stakes(Counter[str]):
    """How often each rule was at stake in a run."""

    def require(self, holds: object, rule: str, message: str, *details: object, stake: bool = False) -> None:
        """Hold the driver to a rule.

        Args:
            holds: whether the rule is kept.
            rule: its id.
            message: what is wrong, formatted with the details only when it is.
            details: of the message.
            stake: a driver that breaks the rule would have been noticed just here.

        Raises:
            Violation: it is not kept.
        """
        if stake:
            self[rule] += 1
        require(holds, rule, message, *details)

    def met(self, rule: str, happened: bool = True) -> None:
        """A moment at which a driver that breaks the rule would be noticed later on."""
        if happened:
            self[rule] += 1
