"""Every way of being a broken rig gets its sentence: what is wrong, at which request, and what the protocol says."""

from __future__ import annotations

import pickle
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from treadle_specs.protocol import process
from treadle_specs.protocol.fault import RigFault
from treadle_specs.protocol.process import RigProcess

FAULTY = Path(__file__).with_name("faulty_rig.py")
SHORT_S, AMPLE_S = 0.5, 60.0
SENTENCES = {
    "the driver is a plain text": ("driver: .* is not of type .object.", "`driver` is an object with `name` and"),
    "another protocol": ("protocol: 1 was expected", "the number 1"),
    "features as one text": ("features: .*not of type", "list of words"),
    "no features": ("features: null", "list of words"),
    "another id": ("the reply has the id 99, and the request has 2", "the id of its request"),
    "the id as text": ("id: .2. is not of", "that of the request"),
    "true as id": ("id: true is not of", "that of the request"),
    "ok as text": ("ok: .yes. is not", "true or false"),
    "a refusal without an error": ("error", "`error` with `code` and `message`"),
    "an error that is a text": ("error: .no. is not", "an object with `code`"),
    "an error without a code": ("error: .code. is a required", "`code` and `message`"),
    "a code that nobody knows": ("error.code: .oops.", "one of unsupported, invalid"),
    "a status that nobody knows": ("status: .busy.", "idle or running"),
    "a state that nobody knows": ("state: .asleep.", "lifecycle state, or null"),
    "no gates": ("gates: null", "list of gates"),
    "an inbox that is a list": ("inbox: ", "`next-turn` and `next-step`"),
    "an inbox of one list": ("inbox: .next-step. is a required", "`next-turn` and `next-step`"),
    "an event that is a text": (r"events\[0\]: ", "an object with `type`"),
    "an event without a type": (r"events\[0\]: .type. is a required", "an object with `type`"),
    "a turn that ends for no reason": (r"events\[0\]: .reason. is a required", "`turn/end` has `turn` and `reason`"),
    "a reason that nobody knows": (r"events\[0\].reason: .done.", "completed, max-tokens, blocked"),
    "a turn that is a text": (r"events\[0\].turn: ", "counted from 1"),
    "a turn number nought": (r"events\[0\].turn: 0", "counted from 1"),
    "an answer without calls": (r"events\[0\]: .calls. is a required", "`text` and `calls`"),
    "a result of no call": (r"events\[0\]: .call. is a required", "`tool/result` has `call`"),
    "a splice before the list": (r"events\[0\].start: -1", "counted from 0"),
    "a notice without a name": (r"notices\[0\]: .name. is a required", "an object with `name`"),
    "a status that is not told": (r"notices\[0\]: .status. is a required", "`agent/status` has `status`"),
    "a gate without a name": (r"gates\[0\]: .gate. is a required", "a name that no other gate"),
    "a gate that nobody knows": (r"gates\[0\].kind: .door.", "one of model, tool"),
    "a model gate without messages": (r"gates\[0\]: .messages. is a required", "a model gate has `messages`"),
    "a message without a role": (r"gates\[0\].messages\[0\]: .role. is a required", "has `role` and `text`"),
    "a tool gate without a call": (r"gates\[0\]: .call. is a required", "a tool gate has `call`"),
    "a reservation that is not told": ("reserved: null", "true or false"),
    "an outcome that nobody knows": ("outcome: .done.", "applied, not-found or steer-unavailable"),
    "a list": ("a list, and no object", "one JSON object on one line"),
    "null": ("null, and no object", "one JSON object on one line"),
    "no JSON": ("the line is no JSON", "logs go to stderr"),
    "not a number": ("NaN is no number of JSON", "one JSON object"),
    "no UTF-8": ("not UTF-8", "one JSON object"),
    "an abyss": ("nested too deeply", "one JSON object"),
    "a number without end": ("the line is no JSON", "one JSON object"),
    "an object in two lines": ("the line is no JSON", "on one line"),
    "an empty line": ("an empty line", "and nothing else"),
    "no id": (".id. is a required", "`id` and `ok`"),
    "no ok": (".ok. is a required", "`id` and `ok`"),
    "a banner": ("no JSON|before any request", "logs go to stderr"),
    "garbage between the lines": ("the line is no JSON", "logs go to stderr"),
    "garbage behind a reply": ("no JSON|answers no request", "logs go to stderr"),
    "two replies": ("a second reply to request 2", "exactly one reply|the id of its request"),
    "it repeats its last reply": ("a second reply to request 1", "the id of its request"),
    "it ends at once": ("the rig ended with status 1, and gave no reply", "ends after `close`"),
    "it dies": ("the rig ended with signal 9, and gave no reply", "ends after `close`"),
    "it ends": ("the rig ended with status 3, and gave no reply", "ends after `close`"),
    "half a line at its end": ("the rig ended with status 0, and gave half a line", "ends after `close`"),
    "it closes its output": ("closed its output", "ends after `close`"),
    "a hundred megabytes": ("longer than 16 MiB", "16 MiB"),
    "it says nothing": ("no reply within 0.5 s\n", "exactly one reply"),
    "it answers too late": ("no reply within 0.5 s\n", "exactly one reply"),
    "half a line": ("no reply within 0.5 s, but half a line", "ended by a newline"),
}
WAITED_FOR = ("it says nothing", "it answers too late", "half a line")
ASKS: list[dict[str, Any]] = [
    {"do": "hello"},
    {"do": "open", "session": "s1"},
    {"do": "settle"},
    {"do": "reserve"},
    {"do": "update", "message_id": "m", "action": "remove"},
]


def command(fault: str) -> str:
    return f'{sys.executable} -I {FAULTY} "{fault}"'


def converse(rig: RigProcess, *asks: dict[str, Any]) -> None:
    try:
        for ask in asks or ASKS:
            rig.ask(ask)
        rig.stop()
    finally:
        rig.drop()


@pytest.mark.parametrize("fault", SENTENCES)
def test_each_broken_rig_gets_its_sentence(fault: str) -> None:
    rig = RigProcess(command(fault), timeout=AMPLE_S)
    if fault in WAITED_FOR:
        rig.ask({"do": "hello"})
        rig.timeout = SHORT_S
    with pytest.raises(RigFault, match=SENTENCES[fault][0]) as caught:
        converse(rig, *(ASKS[1:] if fault in WAITED_FOR else ASKS))
    told = caught.value
    assert re.search(SENTENCES[fault][1], told.says), told.says
    assert told.request is not None or fault == "a banner"
    assert f"protocol: {told.says}" in str(told)
    assert told.short.count("\n") == 0


def test_a_sound_rig_passes_however_much_it_says_on_stderr() -> None:
    converse(RigProcess(command("none"), timeout=AMPLE_S))
    converse(RigProcess(command("much on stderr"), timeout=AMPLE_S))


def test_a_fault_tells_the_last_lines_of_stderr_and_ends_the_rig() -> None:
    rig = RigProcess(command("it ends"), timeout=AMPLE_S)
    rig.ask(ASKS[0])
    with pytest.raises(RigFault) as first:
        rig.ask(ASKS[1])
    assert first.value.stderr == tuple([f"line {number}" for number in range(15, 20)])
    assert "stderr: line 19" in str(first.value)
    with pytest.raises(RigFault) as second:
        rig.ask(ASKS[2])
    assert second.value is first.value
    assert rig.proc.poll() is not None
    rig.drop()


def test_what_a_rig_writes_is_shown_as_one_line_that_is_safe_to_print() -> None:
    rig = RigProcess(f'{sys.executable} -I -c \'print(chr(27) + "[2J" + "x" * 9999); input()\'', timeout=AMPLE_S)
    with pytest.raises(RigFault) as caught:
        converse(rig)
    assert len(caught.value.reply) < 400
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("wrong", ["", "/no/such/program", "a 'b", str(FAULTY.parent)])
def test_a_rig_that_cannot_be_started_is_at_fault(wrong: str) -> None:
    with pytest.raises(RigFault, match="cannot be started"):
        RigProcess(wrong)


def test_a_rig_that_reads_nothing_holds_nobody_up() -> None:
    rig = RigProcess(command("it reads nothing"), timeout=SHORT_S)
    with pytest.raises(RigFault, match="is not read within"):
        converse(rig, {"do": "deliver", "message": {"id": "m", "text": "x" * 10**6}})


def test_a_rig_is_told_when_it_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "ENDING_S", SHORT_S)
    with pytest.raises(RigFault, match="does not end within"):
        converse(RigProcess(command("it does not end"), timeout=AMPLE_S))


def test_how_a_rig_ended_is_told_after_a_close() -> None:
    for fault, status in (("none", 0), ("a bad end", 5)):
        rig = RigProcess(command(fault), timeout=AMPLE_S)
        rig.ask({"do": "close"})
        assert rig.exit_status() == status
        rig.stop()
        rig.stop()


def test_a_fault_goes_between_processes() -> None:
    fault = RigFault("what", "says", request={"do": "hello"}, reply="r", stderr=("a",))
    assert str(pickle.loads(pickle.dumps(fault))) == str(fault)
