"""What a check found, for people and for programs."""

from __future__ import annotations

from attrs import define, field, frozen

from .disturbance import Disturbance, Harmed, Ordered, Placed, Undisturbed
from .problem import MEANING, Problem
from .run import Seen
from .scenario import Scenario
from .sites import Site
from .telling import drawing, transcript

_DEEDS = {
    "cancel": "the agent was stopped",
    "dispose": "the agent was disposed",
    "steer": "a steering message was delivered",
    "followup": "another prompt was delivered",
    "die": "the process died",
}
_HARMS = {
    "fail": "failed",
    "twice": "and the one after it failed",
    "refuse": "was refused for good",
    "break": "broke off after its first chunk",
    "hang": "hung, until somebody stopped it",
    "slow": "took long",
}


@frozen
class Finding:
    """One fault, by the shortest scenario that shows it.

    Attributes:
        problem: what is wrong, and the line of yours that it is about.
        disturbance: what was done.
        scenario: what was played.
        seen: the run.
        maker: the name of the function that made the agent.
    """

    problem: Problem
    disturbance: Disturbance
    scenario: Scenario
    seen: Seen = field(repr=False)
    maker: str = "make_agent"

    @property
    def site(self) -> Site | None:
        """The line of the user's code that the finding names: where it is wrong, else where the disturbance struck."""
        if self.problem.kind == "invariant":  # what broke it is meant, not what noticed
            return self.place or self.problem.site
        return self.problem.site or self.place

    @property
    def place(self) -> Site | None:
        """Where the user's code was when the disturbance struck; for a call that was harmed, what was called."""
        if isinstance(self.disturbance, Harmed):
            return self.seen.sites.get((self.disturbance.kind, self.disturbance.name), self.seen.at[1])
        return self.seen.at[1]

    @property
    def replay(self) -> str:
        """A line that replays just this; what the check was given besides has to be given to it as well."""
        return f"check_agent({self.maker}, {self.scenario.source()}, only={str(self.disturbance)!r})"

    @property
    def mermaid(self) -> str:
        """The run as a sequence diagram in Mermaid, up to its end or to where it was given up."""
        return drawing(self.seen.events, self.seen.mark, self._done())

    def _done(self) -> str:
        match self.disturbance:
            case Placed(deed=deed, kept=kept):
                left = f"; the first {kept} events of the log survived" if kept is not None else ""
                return _DEEDS[deed] + left
            case Harmed(harm=harm, kind=kind, name=name, nth=nth):
                what = {"model": "the model's attempt", "store": "the store's write"}.get(
                    kind, f"{kind} {name}, its call"
                )
                return f"{what} {nth} {_HARMS[harm]}"
            case Ordered():
                return "the tasks ran in another order"
            case Undisturbed():
                return "nothing was disturbed"

    def __str__(self) -> str:
        problem = self.problem
        rule = f" [{problem.rule}]" if problem.rule else ""
        lines = [f"{MEANING[problem.kind]}{rule}", f"  {problem.message}"]
        if self.site is not None:
            lines.append(f"  {'at' if self.site == problem.site else 'done at'} {self.site}")
            lines += [f"    {self.site.text}"] if self.site.text else []
        lines += ["", f"when: {self._done()}"]
        who, where = self.seen.at
        if not isinstance(self.disturbance, Undisturbed | Ordered):
            lines += [f"  while the agent was in {self.seen.state or '?'}"]
            lines += [f"  at {who}, {where}"] if where is not None and who else []
        lines += ["", "what was said until then:"]
        lines += ["  " + line for line in transcript(self.seen.events, self.seen.mark, self._done())]
        lines += ["", "as a sequence diagram (Mermaid):"]
        lines += ["  " + line for line in self.mermaid.splitlines()]
        lines += ["", "just this, again:", f"  {self.replay}"]
        return "\n".join(lines)


@define
class Report:
    """What a check did and found.

    Attributes:
        places: how many places the undisturbed run has: one before each batch of tasks, one whenever all wait.
        deaths: how many different logs a death could leave there.
        calls: how many calls of tools, hooks, the model and the store it has.
        swept: how many runs each sweep made.
        unreached: how many of them ended before their place; threads and processes are not the same twice.
        seconds: the processor time of all.
        findings: what is wrong.
    """

    places: int = 0
    deaths: int = 0
    calls: int = 0
    swept: dict[str, int] = field(factory=dict[str, int])
    unreached: int = 0
    seconds: float = 0.0
    findings: list[Finding] = field(factory=list[Finding])

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    @property
    def runs(self) -> int:
        """How many runs were made, the undisturbed one included."""
        return 1 + sum(self.swept.values())

    def __str__(self) -> str:
        told = ", ".join([f"{sweep} {count}" for sweep, count in self.swept.items()]) or "none"
        missed = f"; {self.unreached} of them ended before their place" if self.unreached else ""
        head = (
            f"{self.runs} runs in {self.seconds:.1f} s of processor time: {self.places} places, {self.deaths} ways to die, "
            f"{self.calls} calls; swept: {told}{missed}"
        )
        count = len(self.findings)
        if not count:
            return f"{head}\nnothing was found"
        return "\n\n".join([f"{head}\n{'1 finding' if count == 1 else f'{count} findings'}", *map(str, self.findings)])
