"""One thing that is wrong in a run, and where in the user's code."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from .sites import Site

Kind = Literal[
    "contract",
    "invariant",
    "swallowed cancellation",
    "hook raised",
    "never comes to rest",
    "does not converge",
    "blocks",
    "left behind",
    "not given back",
    "error",
]
"""What can be wrong."""
MEANING: dict[Kind, str] = {
    "contract": "a rule of the contract is broken",
    "invariant": "an invariant of yours does not hold",
    "swallowed cancellation": "a cancellation went in and did not come out: trio.Cancelled has to be let through",
    "hook raised": "a hook raised an error of its own",
    "never comes to rest": "the agent waits for something that nobody will do",
    "does not converge": "the agent was stopped, and does not come to rest",
    "blocks": "a call blocks the thread of the loop, so that no agent can go on: use its awaitable form or a thread",
    "left behind": "something is left when everything is over",
    "not given back": "something was taken and is not given back",
    "error": "something raised that should not",
}
"""What each means, for people."""


@frozen
class Problem:
    """What is wrong.

    Attributes:
        kind: which kind.
        message: what, in this case.
        site: the line of the user's that it is about.
        rule: the rule of the contract, where it is one.
    """

    kind: Kind
    message: str
    site: Site | None = None
    rule: str = ""

    @property
    def key(self) -> tuple[str, str, Site | None]:
        """Two problems with the same key are the same fault."""
        return self.kind, self.rule, self.site
