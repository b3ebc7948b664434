#!/usr/bin/env python3
"""Run case files against a rig (see PROTOCOL.md).

    run_cases.py --rig "python -m yourpackage.rig" cases/*.json
    run_cases.py --rig "…" --show cases/cancel.json#late-steer     # print the whole exchange of one case

Without files, the cases beside this module are run; PROTOCOL.md tells what a file holds. Standard library only.
"""

import argparse
import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

Json = dict[str, Any]
REPLY_CHECKS = ("pending", "reserved", "outcome")
REFUSAL_CHECKS = ("ok", "code")
SETTLE_CHECKS = (
    *("log", "log_has", "log_lacks", "notices", "gates", "state", "status", "next-turn", "next-step"),
    *("request", "results", "story", "distinct_calls"),
)
NOTICES = {
    *("agent/status", "agent/inbox/inserted", "agent/inbox/claimed", "agent/inbox/discarded"),
    *("agent/error", "agent/cancel-requested", "agent/disposed"),
}
HIDDEN = {"request/header", "request/context", "system/message", "session/end-seed", "llm/retry", "llm/retry-started"}
ANSWER_WITHIN_S = 30
EXIT_WITHIN_S = 10


class Failure(Exception):
    """The rig did not do what the case wants."""


class Skip(Exception):
    """The rig lacks what the case needs, and says so."""


def compact_event(event: Json) -> str:
    """One line for one durable event."""
    kind: str = event["type"]
    return _words(*(_EVENTS[kind](event) if kind in _EVENTS else (kind,)))


def _answer_words(event: Json) -> tuple[Any, ...]:
    reasoning = event.get("reasoning") and f"({event['reasoning']})"
    text, calls = f"'{event.get('text') or ''}'", _marked("+", event, "calls")
    return "assistant", reasoning, text, *calls, event.get("interrupted") and "interrupted"


def _splice_words(event: Json) -> tuple[Any, ...]:
    removed = event.get("removed") and f"-{event['removed']}"
    inserted = _marked("+", event, "inserted")
    return "inbox", event["target"], f"@{event['start']}", removed, *inserted, event.get("outcome")


_EVENTS: dict[str, Callable[[Json], tuple[Any, ...]]] = {
    "turn/start": lambda event: (f"turn/start {event['turn']}",),
    "turn/end": lambda event: (f"turn/end {event['turn']}", event["reason"], event.get("cause") or event.get("code")),
    "step/start": lambda event: ("step/start", f"{event['turn']}.{event['step']}"),
    "step/end": lambda event: ("step/end", f"{event['turn']}.{event['step']}"),
    "user/message": lambda event: ("user", event["message"]),
    "assistant/message": _answer_words,
    "assistant/attempt": lambda _: ("attempt",),
    "tool/call": lambda event: ("call", event["call"]),
    "tool/result": lambda event: ("result", event["call"], *_outcome(event)),
    "agent/inbox/spliced": _splice_words,
}


def _outcome(event: Json) -> tuple[Any, ...]:
    return ("error", event.get("code")) if event.get("error") else ("ok",)


def _marked(mark: str, record: Json, key: str) -> list[str]:
    marked: list[str] = record.get(key) or []
    return [mark + one for one in marked]


def _words(*words: Any) -> str:
    return " ".join([str(word) for word in words if word])


def compact_notice(notice: Json) -> str:
    """One line for one notification."""
    name: str = notice["name"].removeprefix("agent/").removeprefix("inbox/")
    field = {"status": "status", "cancel-requested": "cause", "error": None}.get(name, "message")
    return f"{name} {(notice.get(field) if field else None) or ''}".strip()


def compact_gate(gate: Json) -> str:
    """The name by which a case passes a gate."""
    kind: str = gate["kind"]
    return f"{kind} {gate['call']}" if kind in ("tool", "stubborn-tool") else kind


def compact_message(message: Json) -> str:
    """One line for one message of a model request."""
    marks = _marked("+", message, "calls") + _marked("=", message, "results")
    return _words(message["role"], message.get("text"), *marks)


def story(reply: Json) -> list[str]:
    """Events and notices in the one order in which they were published (by their number "at"); notices marked ~."""
    told = [(event.get("at", 0), compact_event(event)) for event in shown_events(reply)]
    told += [(notice.get("at", 0), "~" + compact_notice(notice)) for notice in shown_notices(reply)]
    return [text for _, text in sorted(told, key=lambda pair: pair[0])]


def shown_events(reply: Json) -> list[Json]:
    """The events of a settle that cases compare."""
    return [event for event in reply["events"] if event["type"] not in HIDDEN]


def shown_notices(reply: Json) -> list[Json]:
    """The notices of a settle that cases compare."""
    return [notice for notice in reply["notices"] if notice["name"] in NOTICES]


def newest_request(gates: list[Json]) -> list[str]:
    """The messages of the newest model gate, without the system prompt."""
    requests: list[list[Json]] = [gate["messages"] for gate in gates if gate["kind"] == "model"]
    return [compact_message(message) for message in (requests or [[]])[-1] if message["role"] != "system"]


def seen_in(reply: Json) -> Json:
    """What a settle reported, in the form in which cases state it."""
    events = shown_events(reply)
    results = [event for event in events if event["type"] == "tool/result"]
    asked = [_marked("", event, "calls") for event in events if event["type"] == "assistant/message"]
    return {
        "log": [compact_event(event) for event in events],
        "notices": [compact_notice(notice) for notice in shown_notices(reply)],
        "results": [f"{event['call']} {event.get('text') or ''}".strip() for event in results],
        "story": story(reply),
        "distinct_calls": all(len(set(calls)) == len(calls) for calls in asked),
        "gates": [compact_gate(gate) for gate in reply["gates"]],
        "state": reply.get("state"),
        "status": reply["status"],
        "next-turn": reply["inbox"]["next-turn"],
        "next-step": reply["inbox"]["next-step"],
        "request": newest_request(reply["gates"]),
    }


class Rig:
    """A rig as a child process: one JSON object a line, each request answered once."""

    def __init__(self, command: str, *, show: bool = False) -> None:
        self.show = show
        self.count = 0
        self.gates: list[Json] = []
        self.proc = subprocess.Popen(
            shlex.split(command), text=True, encoding="utf-8", bufsize=1, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None if show else subprocess.DEVNULL,
        )  # fmt: skip
        assert self.proc.stdin is not None
        assert self.proc.stdout is not None
        self._input, self._output = self.proc.stdin, self.proc.stdout

    def hello(self) -> list[str]:
        """Greet the rig; returns its features."""
        reply = self.ask({"do": "hello"})
        if reply.get("protocol") != 1:
            raise Failure(f"hello answered {reply}")
        return reply.get("features", [])

    def ask(self, request: Json) -> Json:
        """Send one request and return its reply; a rig that stays silent is killed."""
        self.count += 1
        line = json.dumps({"id": self.count, **request}, ensure_ascii=False)
        if self.show:
            print(">>", line)
        self._input.write(line + "\n")
        self._input.flush()
        timer = threading.Timer(ANSWER_WITHIN_S, self.kill)
        timer.start()
        try:
            answer = self._output.readline()
        finally:
            timer.cancel()
        if self.show:
            print("<<", answer.rstrip())
        if not answer:
            raise Failure(f"the rig gave no answer to {request.get('do')} (it died, or {ANSWER_WITHIN_S} s passed)")
        reply = json.loads(answer)
        if reply.get("id") != self.count:
            raise Failure(f"reply id {reply.get('id')} to request {self.count}")
        return reply

    def kill(self) -> None:
        """End the whole process group: the command may be a wrapper (uv run, env, sh)."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.proc.pid, signal.SIGKILL)

    def exit_status(self) -> int:
        """Wait for the rig to end by itself."""
        return self.proc.wait(EXIT_WITHIN_S)

    def stop(self) -> None:
        """End the rig, politely at first, and close its pipes."""
        with contextlib.suppress(OSError):
            self._input.close()
        try:
            self.proc.wait(5)
        except subprocess.TimeoutExpired:
            self.kill()
            self.proc.wait(5)
        self._output.close()


Start = Callable[[], Any]
"""Starts a rig: a ``Rig``, or what is asked and ended like one."""


class CaseRun:
    """One case on one rig (several in a row when the case restarts it)."""

    def __init__(self, case: Json, tmp: str, start: Start) -> None:
        self.case, self.tmp, self.start = case, tmp, start
        self.artifact: str | None = None
        self.rig = start()

    def run(self) -> None:
        """Run every step; raises Failure or Skip."""
        try:
            self.features = self.rig.hello()
            missing = [need for need in self.case.get("needs", []) if need not in self.features]
            if missing:
                raise Skip("rig lacks " + ", ".join(missing))
            for number, step in enumerate([self.opening(), *self.case["steps"]]):
                self.run_step(number, self.restart(number, step) if step["do"] == "restart" else step)
            self.rig.ask({"do": "close"})
            if status := self.rig.exit_status():
                raise Failure(f"exit status {status} after close")
        finally:
            self.rig.stop()

    def opening(self) -> Json:
        """The request that opens the case's agent."""
        return {"do": "open", "session": "s1", **self.case.get("open", {})}

    def restart(self, number: int, step: Json) -> Json:
        """End the rig, damage its file if asked, start a new one; returns the request that resumes the session."""
        kill = step.get("kill", False)
        if kill:
            self.rig.kill()
        elif not self.rig.ask({"do": "close"}).get("ok"):
            raise Failure(f"step {number}: close was refused")
        if (status := self.rig.exit_status()) and not kill:
            raise Failure(f"step {number}: exit status {status} after close")
        if "damage" in step:
            if not self.artifact:
                raise Skip("the rig names no artifact to damage")
            damage(Path(self.artifact), step["damage"])
        self.rig.stop()
        self.rig = self.start()
        self.rig.hello()
        return {**self.opening(), "resume": True, **step.get("open", {}), **_only(step, REFUSAL_CHECKS)}

    def run_step(self, number: int, step: Json) -> None:
        """Send one step's request and check what comes back."""
        settle = step["do"] == "settle"
        checks = _only(step, names := (*REFUSAL_CHECKS, *REPLY_CHECKS, *(SETTLE_CHECKS if settle else ())))
        request = fill({key: value for key, value in step.items() if key not in names}, self.tmp)
        if settle and len(request) > 1:
            raise Failure(f"step {number}: the case has unknown checks {sorted(set(request) - {'do'})}")
        if step["do"] == "pass":
            request["gate"] = self.gate_named(number, step["gate"])
        reply = self.rig.ask(request)
        if not accepted(number, request, reply, checks):
            return
        if step["do"] == "open":
            self.artifact = reply.get("artifact")
        for key in REPLY_CHECKS:
            if key in checks and reply.get(key) != checks[key]:
                raise Failure(f"step {number} {key}: want {checks[key]}, got {reply.get(key)}")
        if settle:
            self.rig.gates = reply["gates"]
            if "state" not in self.features:
                checks.pop("state", None)
            compare(number, checks, seen_in(reply))

    def gate_named(self, number: int, name: str) -> str:
        """The rig's own name of a waiting gate, from the compact one."""
        for gate in self.rig.gates:
            if compact_gate(gate) == name:
                return gate["gate"]
        waiting = [compact_gate(gate) for gate in self.rig.gates]
        raise Failure(f"step {number}: no gate {name!r}; waiting: {waiting}")


def accepted(number: int, request: Json, reply: Json, checks: Json) -> bool:
    """Whether the request was accepted; raises when the case wants the contrary."""
    must_be_refused = checks.get("ok") is False
    if reply.get("ok"):
        if must_be_refused:
            raise Failure(f"step {number} {request['do']}: accepted, but must be refused")
        return True
    error = reply.get("error", {})
    if error.get("code") == "unsupported":
        raise Skip("unsupported: " + request["do"])
    if not must_be_refused or checks.get("code", error.get("code")) != error.get("code"):
        raise Failure(f"step {number} {request['do']}: refused: {error}")
    return False


def compare(number: int, checks: Json, seen: Json) -> None:
    """Hold what a settle reported against the checks of its step."""
    log: list[str] = seen["log"]
    for item in checks.get("log_has", []):
        if item not in log:
            raise Failure(f"step {number}: log lacks {item!r}\n    got {log}")
    for item in checks.get("log_lacks", []):
        if any(item in entry for entry in log):
            raise Failure(f"step {number}: log has {item!r}\n    got {log}")
    for key, want in checks.items():
        if key in seen and seen[key] != want:
            raise Failure(f"step {number} {key}:\n    want {want}\n    got  {seen[key]}")


def _only(step: Json, names: tuple[str, ...]) -> Json:
    return {key: value for key, value in step.items() if key in names}


def fill(value: Any, tmp: str) -> Any:
    """Replace {tmp} in every string of a request."""
    if isinstance(value, str):
        return value.replace("{tmp}", tmp)
    if isinstance(value, list):
        return [fill(item, tmp) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: fill(item, tmp) for key, item in cast("Json", value).items()}
    return value


def damage(path: Path, change: Json) -> None:
    """Cut bytes off the end of a file, then append some."""
    kept = (data := path.read_bytes())[: len(data) - change.get("cut", 0)]
    path.write_bytes(kept + change.get("append", "").encode("utf-8"))


def run_case(case: Json, command: str, *, show: bool = False, start: Start | None = None) -> None:
    """Run one case against a fresh rig in a fresh directory; raises Failure or Skip."""
    with tempfile.TemporaryDirectory() as tmp:
        CaseRun(case, tmp, start or (lambda: Rig(command, show=show))).run()


def own_cases() -> list[str]:
    """The case files that lie beside this module."""
    return sorted(str(path) for path in (Path(__file__).parent / "cases").glob("*.json"))


def selected(files: list[str]) -> list[tuple[str, Json]]:
    """The cases of the given files, each with its label; FILE#NAME selects one."""
    cases: list[tuple[str, Json]] = []
    for spec in files:
        path, _, only = spec.partition("#")
        found: list[Json] = json.loads(Path(path).read_text(encoding="utf-8"))
        chosen = [case for case in found if only in ("", case["name"])]
        cases += [(f"{path}#{case['name']} [{' '.join(case.get('rules', []))}]", case) for case in chosen]
    return cases


def main() -> int:
    """Run the cases and print what failed; the exit status is 0 only if something passed and nothing failed."""
    parser = argparse.ArgumentParser(description="Run case files against a rig.")
    parser.add_argument("--rig", required=True, help="the command that starts the rig")
    parser.add_argument("--show", action="store_true", help="print the whole exchange")
    parser.add_argument("files", nargs="*", help="FILE or FILE#CASE; the cases beside this module if none is given")
    args = parser.parse_args()
    passed = failed = skipped = 0
    began = time.monotonic()
    for label, case in selected(args.files or own_cases()):
        try:
            run_case(case, args.rig, show=args.show)
            passed += 1
        except Skip as why:
            skipped += 1
            print(f"skip {label}: {why}")
        except Exception as why:
            failed += 1
            print(f"FAIL {label}: {why if isinstance(why, Failure) else repr(why)}")
    print(f"{time.monotonic() - began:.1f} s")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
