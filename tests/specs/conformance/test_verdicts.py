"""A verdict says what was really tried: odd rigs get the right one, and zero runs never conform."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from treadle_cli import main
from treadle_specs.conformance import command, corpus, rig_check
from treadle_specs.conformance.fair_rules import FAIR
from treadle_specs.conformance.findings import RIG, Broken, Findings
from treadle_specs.conformance.kit import Untickable, check_driver
from treadle_specs.conformance.local import LocalRig
from treadle_specs.conformance.plan import Plan
from treadle_specs.conformance.profiles import CORE, LACKING, NEEDS, PROFILES, RESUMED, SUITE
from treadle_specs.conformance.progress import Progress
from treadle_specs.conformance.reporting import as_json, as_junit, as_text
from treadle_specs.conformance.stakes import Stakes
from treadle_specs.conformance.survey import Survey, survey
from treadle_specs.conformance.verdicts import CaseResult, Verdict
from treadle_specs.exploration.violation import Violation
from treadle_specs.protocol.fault import RigFault
from treadle_specs.protocol.reading import read_reply

Json = dict[str, Any]
ROOT = Path(__file__).parents[3]
FAULTY = f"{sys.executable} -I {ROOT / 'tests' / 'specs' / 'protocol' / 'faulty_rig.py'}"
SOUND = f"{sys.executable} -I {ROOT / 'examples' / 'asyncio_rig.py'}"
HELLO = {"protocol": 1, "driver": {"name": "odd", "version": "1"}, "features": []}
IDLE = {"status": "idle", "state": None, "inbox": {"next-turn": [], "next-step": []}, "events": [], "notices": [], "gates": []}  # fmt: skip


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


class Odd:
    """A rig that answers by rote; what it answers is read as a line would be."""

    def ask(self, request: Json) -> Json:
        return read_reply(json.dumps({"id": request["id"], **self.told(request)}).encode(), request)

    def told(self, request: Json) -> Json:
        return {"ok": True, **{"hello": HELLO, "settle": IDLE}.get(request["do"], {})}

    def stop(self) -> None:
        pass

    def close(self, *, kill: bool = False) -> None:
        pass


def refused(code: str) -> Json:
    return {"ok": False, "error": {"code": code, "message": "no"}}


class Empty(Odd):
    """It has nothing at all."""

    def told(self, request: Json) -> Json:
        return super().told(request) if request["do"] == "hello" else refused("unsupported")


class Mute(Odd):
    """It does not even say who it is."""

    def told(self, request: Json) -> Json:
        return refused("unsupported")


class Shut(Odd):
    """It does not open."""

    def told(self, request: Json) -> Json:
        return refused("invalid") if request["do"] == "open" else super().told(request)


class Sleeper(Odd):
    """It refuses what would open a turn."""

    def told(self, request: Json) -> Json:
        return refused("unsupported") if request["do"] == "deliver" else super().told(request)


class Echo(Odd):
    """It repeats its last reply."""

    def __init__(self) -> None:
        self.last: Json = {}

    def ask(self, request: Json) -> Json:
        self.last = self.last or {"id": request["id"], **self.told(request)}
        return read_reply(json.dumps(self.last).encode(), request)


class Plain:
    """Our own driver without maintenance."""

    def __init__(self) -> None:
        self._rig = Untickable(LocalRig())

    def ask(self, request: Json) -> Json:
        if request["do"] == "maintain":
            return {"id": request["id"], **refused("unsupported")}
        reply = self._rig.ask(request)
        if request["do"] == "hello":
            reply["features"] = [word for word in reply["features"] if word != "maintenance"]
        return reply

    def drop(self) -> None:
        self._rig.drop()

    def stop(self) -> None:
        self._rig.stop()


def judged(make_rig: Any, **given: Any) -> Verdict:
    return check_driver(make_rig, Plan(**{"examples": 20, "shrink": False, **given}), raises=False)


@pytest.mark.parametrize(
    ("rig", "word", "why"),
    [
        (Empty, "nothing to judge", "`open` is unsupported"),
        (Mute, "nothing to judge", "`hello` is refused"),
        (Sleeper, "nothing to judge", "`deliver` is unsupported"),
        (Shut, "refused to open", "`open` is refused: no"),
        (Echo, "the rig is at fault", "a second reply to request 1"),
    ],
)
def test_a_rig_that_gives_nothing_to_judge_is_told_so(rig: Any, word: str, why: str) -> None:
    for profile in PROFILES:
        verdict = judged(rig, profile=profile)
        assert (verdict.word, verdict.status, verdict.runs) == (word, 3, 0)
        assert why in verdict.why
        assert why in as_text(verdict)
        assert as_json(verdict)["conforms"] is False
        assert 'failures="0"' not in as_junit(verdict)


@pytest.mark.slow
def test_a_deaf_rig_loses_every_message() -> None:
    verdict = judged(Odd)
    assert verdict.word == "does not conform"
    assert verdict.of("I5") == "broken"
    assert verdict.of("L4") == "not exercised"


@pytest.mark.slow
def test_without_maintenance_its_rule_is_not_applicable_and_the_rest_is_held() -> None:
    verdict = judged(Plain, examples=250)
    assert verdict.of("M1") == "not applicable: no maintenance"
    assert verdict.conforms, as_text(verdict)
    assert "M1 (no maintenance)" in as_text(verdict)


def test_zero_runs_never_conform_and_rules_at_stake_too_seldom_are_named() -> None:
    known = Survey(driver="d", features=frozenset(NEEDS.values()))
    assert Verdict(Plan(examples=1), known).word == "nothing to judge"
    stakes = Stakes(dict.fromkeys(SUITE, 3))
    assert Verdict(Plan(examples=1), known, stakes=stakes).conforms
    stakes["L9"] = 2
    verdict = Verdict(Plan(examples=1), known, stakes=stakes)
    assert (verdict.word, verdict.status) == ("not fully exercised", 3)
    assert "at stake less than 3 times: L9 ×2" in as_text(verdict)
    assert Verdict(Plan(examples=1, least=2), known, stakes=stakes).conforms
    assert Verdict(Plan(examples=1, rules=frozenset({"C1"})), known, stakes=stakes).conforms
    bare = Survey(driver="d", lacks=frozenset({"inbox"}))
    without = Verdict(Plan(examples=1, rules=frozenset({"M1", "I2"})), bare, stakes=stakes)
    assert (without.word, without.why) == ("nothing to judge", "none of the rules applies")


def test_cases_count_as_exercise_and_their_own_rules_are_judged_by_them() -> None:
    stakes = Stakes({**dict.fromkeys(SUITE, 3), "L9": 2})
    verdict = Verdict(Plan(examples=1), Survey(features=frozenset(NEEDS.values())), stakes=stakes)
    verdict.cases = [CaseResult("a", ["L9", "P4"], "ok"), CaseResult("b", ["X1"], "skipped")]
    assert verdict.conforms
    assert verdict.of("P4") == "held"
    assert verdict.of("X1") == "not applicable: its cases are skipped"
    verdict.cases.append(CaseResult("c", ["P4"], "failed", "no"))
    assert verdict.of("P4") == "broken"
    assert verdict.word == "does not conform"


def test_profiles_name_rules_of_the_suite_and_every_reason_to_leave_one_out() -> None:
    assert set(CORE) < set(SUITE)
    assert set(NEEDS) | set(LACKING) <= {*SUITE, *FAIR, *RESUMED}
    assert not (set(NEEDS) | set(LACKING)) & set(CORE)
    with pytest.raises(ValueError, match="no profile 'half'"):
        Plan(profile="half", examples=1)
    with pytest.raises(ValueError, match="bounded"):
        Plan()


class Picky(Odd):
    """It knows one kind of gate and no options."""

    def told(self, request: Json) -> Json:
        if request["do"] == "open" and (request["options"] or set(request["gates"]) - {"tool"}):
            return refused("unsupported")
        return refused("unsupported") if request["do"] in ("inbox", "listen") else super().told(request)


def test_what_a_driver_lacks_is_learned_once_and_asked_for_no_more() -> None:
    known = survey(Picky)
    assert known.judgeable
    assert "tool" not in known.lacks
    assert known.lacks >= {"inbox", "listen", "max_parallel_tool_calls", "pre-step", "request-error"}
    asked: list[Json] = []

    class Watched(Picky):
        def told(self, request: Json) -> Json:
            asked.append(request)
            return super().told(request)

    survey(Watched)
    before = len(asked)
    judged(Watched, examples=10)
    later = [request for request in asked[2 * before :] if request["do"] in ("open", "inbox", "listen")]
    assert later
    assert all(request["do"] == "open" and set(request["gates"]) <= {"tool"} for request in later)


def test_one_fault_of_a_rig_does_not_hide_a_broken_rule_and_three_end_the_search() -> None:
    found = Findings(examples=100)
    fault = RigFault("gone", "it stays", request={"do": "settle"})
    assert found.takes(fault, [{"do": "open"}])
    assert found.takes(Violation("N3", "twice"), [{"do": "open"}, {"do": "settle"}])
    assert found.takes(Violation("N3", "again"), [{"do": "open"}])
    assert not found.takes(KeyboardInterrupt(), [])
    assert found.broken["N3"].message == "again"
    assert (found.broken["N3"].times, found.masked, found.over) == (2, 1, False)
    verdict = Verdict(Plan(examples=100), Survey())
    verdict.take(found)
    assert verdict.word == "does not conform"
    found.broken.pop("N3")
    found.takes(fault, [])
    found.takes(fault, [])
    assert found.over
    verdict.take(found)
    assert verdict.word == "the rig is at fault"


def test_what_the_tester_does_not_understand_is_a_finding_and_no_traceback() -> None:
    found = Findings(examples=1)
    assert found.takes(KeyError("state"), [{"do": "open"}])
    verdict = Verdict(Plan(examples=1), Survey())
    verdict.take(found)
    assert verdict.word == "the rig is at fault"
    assert "does not understand" in as_text(verdict)


def test_scripts_that_broke_a_rule_are_kept_and_played_first(tmp_path: Path) -> None:
    assert corpus.kept(tmp_path / "none") == []
    steps: list[Json] = [{"do": "open", "session": "s1", "gates": []}, {"do": "settle"}]
    assert len(corpus.keep(tmp_path, [Broken("D4", "lost", steps), Broken(RIG, "gone", steps[:1])])) == 2
    (tmp_path / "other.json").write_text("{", encoding="utf-8")
    (tmp_path / "another.json").write_text('{"steps": 3}', encoding="utf-8")
    assert corpus.kept(tmp_path) == [steps, steps[:1]]
    again: list[Json] = [
        *steps,
        {"do": "deliver", "message": {"id": "m", "text": "m"}, "target": "next-turn", "wakeup": True},
        {"do": "settle"},
    ]
    plan = Plan(examples=1, rounds=1, shrink=False)
    verdict = check_driver(Odd, plan, corpus=[again], raises=False)
    assert verdict.broken[0].steps == again


@pytest.mark.slow
def test_a_driver_that_broke_is_broken_again_by_its_script_in_no_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--rig", f"{FAULTY} none", "--examples", "30", "--seed", "1", "--no-cases", "--jobs", "1"]
    assert main(["conform", *options, "--corpus", str(tmp_path), "--core"]) == 1
    scripts = sorted(tmp_path.glob("I5-*.json"))
    assert scripts
    assert "BROKEN" in capsys.readouterr().out
    assert main(["replay", str(scripts[0]), "--rig", f"{FAULTY} none"]) == 1
    told = capsys.readouterr().out
    assert told.count("is accepted, and no event tells of it") == 1
    assert told.endswith(": still broken\n")
    assert main(["replay", str(scripts[0]), "--rig", f'{FAULTY} "no JSON"']) == 3
    assert "the rig is at fault: the line is no JSON" in capsys.readouterr().out


@pytest.mark.slow
def test_two_processes_search_at_the_same_time_and_tell_how_far_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--rig", SOUND, "--core", "--no-corpus", "--jobs", "2", "--examples", "8", "--seed", "3"]
    report = tmp_path / "report.json"
    assert main(["conform", *options, "--format", "json", "--output", str(report)]) in (0, 3)
    told = json.loads(report.read_text())
    assert told["runs"] == 8
    assert told["broken"] == []
    assert capsys.readouterr().err == ""


def test_progress_is_one_live_line_and_nothing_where_nobody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    shown, hidden = io.StringIO(), io.StringIO()
    for out, live in ((shown, True), (hidden, None)):
        progress = Progress(Plan(seconds=60), out, live=live)
        progress.found("suite", Findings(runs=7, stakes=Stakes({"C1": 3})))
        progress.cases(1, 1)
        progress.done()
    assert "property suite: 0 of 60 s, 7 runs, 1 of 43 rules at stake, 0 broken" in shown.getvalue()
    assert shown.getvalue().endswith("\r")
    assert "\n" not in shown.getvalue()
    assert hidden.getvalue() == ""

    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    for value, drawn in (("true", False), ("", True)):
        monkeypatch.setenv("CI", value)
        screen = Screen()
        Progress(Plan(seconds=60), screen).cases(1, 1)
        assert bool(screen.getvalue()) is drawn


@pytest.mark.slow
def test_in_ci_the_seed_is_always_the_same_and_fresh_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    def seed() -> int:
        return command.conform(f'{FAULTY} "no JSON"', examples=1, seconds=None).plan.seed

    monkeypatch.setenv("CI", "true")
    assert {seed(), seed()} == {command.IN_CI}
    monkeypatch.delenv("CI")
    assert len({seed() for _ in range(4)}) > 1


@pytest.mark.slow
def test_a_rig_under_construction_is_told_what_it_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rig-check", "--rig", SOUND]) == 0
    told = capsys.readouterr().out
    assert told.count("ok     ") == len(rig_check.STEPS) + 1
    assert "lacks inbox, pre-step, prompt-submit" in told
    assert main(["rig-check", "--rig", f"{FAULTY} none"]) == 1
    told = capsys.readouterr().out
    assert "LACKS  deliver, settle: no turn/start" in told
    assert "the protocol: a waking delivery opens a turn" in told
    assert main(["rig-check", "--rig", f'{FAULTY} "the driver is a plain text"']) == 3
    told = capsys.readouterr().out
    assert "`driver` is an object with `name` and `version`" in told


def test_what_is_wrong_with_options_is_said_in_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    for options in (["--seconds", "0"], ["--jobs", "0"], ["--profile", "half"], ["--timeout", "nan"]):
        assert main(["conform", *options]) == 2
        assert options[0] in capsys.readouterr().err
    assert main(["conform", "--rules", "L9,X99"]) == 2
    assert "X99 cannot be judged over the protocol" in capsys.readouterr().err
