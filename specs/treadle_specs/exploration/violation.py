"""How a broken rule is told."""

from __future__ import annotations


class Violation(AssertionError):
    """A rule is broken; ``rule`` is its id.

    Attributes:
        at: the number of the offending state, where a whole graph was looked at.
    """

    at: int | None = None

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(f"[{rule}] {message}")
        self.rule = rule
        self.message = message

    def __reduce__(self) -> tuple[type[Violation], tuple[str, str]]:
        return Violation, (self.rule, self.message)


def require(holds: object, rule: str, message: str, *details: object) -> None:
    """Raise a ``Violation`` unless the condition holds; the message is formatted only then."""
    if not holds:
        raise Violation(rule, message.format(*details))
