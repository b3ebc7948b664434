"""What a check tells: the shortest scenario, the line, the transcript, a drawing, and a line that replays just that."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import trio

from tests.specs.agents.faulty import FAULTS
from treadle import Answer, Call, Failure, Host, MisuseError, SessionHeader, tool
from treadle_specs.agents import AgentFaulty, Report, Scenario, Turn, check_agent
from treadle_specs.agents.disturbance import NOTHING, Disturbance, Harmed, Ordered, Placed, disturbance_of
from treadle_specs.agents.faults import Faults
from treadle_specs.agents.life import Subject
from treadle_specs.agents.notes import Notes
from treadle_specs.agents.run import Run
from treadle_specs.agents.starvation import Starvation

LONG = Scenario(
    [
        Turn("Good day.", "Good day."),
        Turn(
            "Go.", Answer(calls=[Call("rest", {}), Call("work", {})]), Answer(calls=[Call("rest", {})]), "It is done."
        ),
        Turn("Goodbye.", Answer(calls=[Call("rest", {})]), "Goodbye."),
    ],
    children={"nobody": ["asks"]},
)


def make_agent(host: Host) -> None:
    lock = trio.Lock()

    async def work() -> str:
        """Work."""
        await lock.acquire()
        await trio.sleep(1)
        lock.release()
        return "worked"

    async def rest() -> str:
        """Rest."""
        await trio.sleep(1)
        return "rested"

    host.tools.register(tool(work))
    host.tools.register(tool(rest, parallel=True))


@pytest.fixture(scope="module")
def report() -> Report:
    return check_agent(make_agent, LONG, raising=False)


@pytest.mark.slow
def test_the_scenario_is_the_shortest_one(report: Report) -> None:
    assert report.findings[0].scenario == Scenario([Turn("Go.", Answer(calls=[Call("work", {})]))])


@pytest.mark.slow
def test_the_line_that_is_told_replays_just_this(report: Report) -> None:
    (finding,) = report.findings
    again = eval(finding.replay.removesuffix(")") + ", raising=False)")
    assert [one.problem.key for one in again.findings] == [finding.problem.key]
    assert again.runs == 2


def test_the_text_tells_place_transcript_drawing_and_replay(report: Report) -> None:
    text = str(report)
    line = next(
        at
        for at, code in enumerate(Path(__file__).read_text().splitlines(), 1)
        if code.strip() == "await lock.acquire()"
    )
    assert f"{__file__}:{line} in make_agent.<locals>.work" in text
    assert "await lock.acquire()" in text
    lines = [line.strip() for line in text.splitlines()]
    said, done = lines.index("model:  → work({})"), lines.index("── the agent was stopped ──")
    assert said < done < lines.index("sequenceDiagram") < lines.index("just this, again:")
    assert "Note over driver,tools: the agent was stopped" in lines
    assert f"{report.places} places" in lines[0]
    assert "1 finding" in lines


@pytest.mark.slow
def test_what_was_found_is_raised_unless_told_otherwise() -> None:
    with pytest.raises(AgentFaulty, match="something was taken") as raised:
        check_agent(make_agent, LONG.turns[1], shrink=False)
    assert len(raised.value.report.findings) == 1


@pytest.mark.slow
def test_a_check_that_keeps_going_tells_each_fault_once() -> None:
    def both(host: Host) -> None:
        make_agent(host)
        FAULTS["hook_knows_one_attempt"].make(host)

    found = check_agent(
        both, LONG.turns[1], keep_going=True, shrink=False, raising=False, sweeps=["harm", "cancel"]
    ).findings
    assert {one.problem.kind for one in found} == {"hook raised", "not given back"}
    assert len({one.problem.key for one in found}) == len(found)


@pytest.mark.parametrize(
    "disturbance",
    [
        NOTHING,
        Placed("cancel", 12),
        Placed("die", 0, 7),
        Harmed("fail", "tool", "search", 2),
        Harmed("hang", "hook", "agent/pre-step:make.<locals>.before", 1),
        Harmed("twice", "model", "", 3),
        Ordered(4),
    ],
)
def test_a_disturbance_is_read_from_its_text(disturbance: Disturbance) -> None:
    assert disturbance_of(str(disturbance)) == disturbance


@pytest.mark.parametrize("text", ["", "cancel", "cancel at x", "explode at 3", "fail 3", "order"])
def test_what_is_no_disturbance_is_refused(text: str) -> None:
    with pytest.raises(MisuseError, match="no disturbance"):
        disturbance_of(text)


@pytest.mark.slow
def test_wrong_arguments_say_what_to_do() -> None:
    with pytest.raises(MisuseError, match="there are harm, cancel"):
        check_agent(make_agent, "Hello.", sweeps=["everything"])
    with pytest.raises(MisuseError, match="needs at least one turn"):
        Scenario([])
    with pytest.raises(MisuseError, match="needs a prompt"):
        Turn("")
    with pytest.raises(MisuseError, match="two turns have the prompt"):
        Scenario(["Go.", "Go."])
    with pytest.raises(MisuseError, match="holds turns"):
        check_agent(make_agent, [3])  # type: ignore[list-item]


@pytest.mark.slow
def test_what_make_agent_gives_is_checked() -> None:
    with pytest.raises(AgentFaulty, match="make_agent returns AgentOptions"):
        check_agent(lambda host: 3, "Hello.")


@pytest.mark.slow
def test_an_error_of_make_agent_is_told_with_its_line() -> None:
    def broken(host: Host) -> None:
        raise KeyError("no such setting")

    (finding,) = check_agent(broken, "Hello.", raising=False).findings
    assert (finding.problem.kind, finding.site is not None and finding.site.file) == ("error", __file__)


def test_a_scenario_is_told_as_python() -> None:
    def later(world) -> None:
        del world

    scenario = Scenario(
        [Turn("Go.", Answer("Well.", calls=[Call("work", {"a": [1]})]), Failure("no", "SERVER"), meanwhile=[later])],
        children={"it": ["Done."]},
    )
    told = scenario.source().replace(later.__qualname__, "later")
    again = eval(told, {**globals(), "later": later})
    assert again == scenario


async def test_a_check_is_not_made_inside_a_trio_run() -> None:
    with pytest.raises(MisuseError, match="from a synchronous test"):
        check_agent(make_agent, "Hello.")


def test_a_log_that_breaks_a_rule_is_told() -> None:
    subject, starving = Subject(make_agent, LONG), Starvation()
    seen = Run(subject).play()
    assert seen.problems == []
    notes = Notes(subject, Faults(), starving, None)
    notes.check_log([*seen.events[:9], *seen.events[10:]], SessionHeader(id="checked", created_at=0, cwd="/"))
    starving.close()
    assert {problem.kind for problem in notes.problems} == {"contract"}
    assert all([problem.rule for problem in notes.problems])


@pytest.mark.slow
def test_making_an_agent_may_block_for_ever_and_that_is_told() -> None:
    def blocked(host: Host) -> None:
        threading.Lock().acquire()
        held = threading.Lock()
        held.acquire()
        held.acquire()

    (finding,) = check_agent(blocked, "Hello.", raising=False).findings
    assert finding.problem.kind == "blocks"
    assert finding.site is not None
    assert finding.site.text == "held.acquire()"


@pytest.mark.slow
def test_a_hook_that_leaves_a_thread_to_compute_does_not_block() -> None:
    def computing(host: Host) -> None:
        async def work() -> int:
            """Work."""
            return await trio.to_thread.run_sync(lambda: sum([number * number for number in range(300_000)]))

        host.tools.register(tool(work))

    scenario = Turn("Go.", Answer(calls=[Call("work")]), "It is done.")
    assert check_agent(computing, scenario, sweeps=["harm"]).sound
