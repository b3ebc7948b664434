"""A rig with one fault: ``python faulty_rig.py FAULT``. Otherwise it answers by rote, and its driver does nothing."""

import json
import os
import signal
import sys
import time

SETTLED = {
    "status": "idle",
    "state": None,
    "inbox": {"next-turn": [], "next-step": []},
    "events": [],
    "notices": [],
    "gates": [],
}
HELLO = {"protocol": 1, "driver": {"name": "faulty", "version": "1"}, "features": ["reservation", "update"]}
REPLIES = {"hello": HELLO, "settle": SETTLED, "reserve": {"reserved": False}, "update": {"outcome": "not-found"}}


def event(**fields):
    return {**SETTLED, "events": [fields]}


def gate(**fields):
    return {**SETTLED, "gates": [fields]}


# What is put into the reply to a verb.
FIELDS = {
    "the driver is a plain text": ("hello", {"driver": "toy 1"}),
    "another protocol": ("hello", {"protocol": 2}),
    "features as one text": ("hello", {"features": "state"}),
    "no features": ("hello", {"features": None}),
    "another id": ("open", {"id": 99}),
    "the id as text": ("open", {"id": "2"}),
    "true as id": ("hello", {"id": True}),
    "ok as text": ("open", {"ok": "yes"}),
    "a refusal without an error": ("open", {"ok": False}),
    "an error that is a text": ("open", {"ok": False, "error": "no"}),
    "an error without a code": ("open", {"ok": False, "error": {"message": "no"}}),
    "a code that nobody knows": ("open", {"ok": False, "error": {"code": "oops", "message": "no"}}),
    "a status that nobody knows": ("settle", {"status": "busy"}),
    "a state that nobody knows": ("settle", {"state": "asleep"}),
    "no gates": ("settle", {"gates": None}),
    "an inbox that is a list": ("settle", {"inbox": []}),
    "an inbox of one list": ("settle", {"inbox": {"next-turn": []}}),
    "an event that is a text": ("settle", {"events": ["turn/start"]}),
    "an event without a type": ("settle", event(turn=1)),
    "a turn that ends for no reason": ("settle", event(type="turn/end", turn=1)),
    "a reason that nobody knows": ("settle", event(type="turn/end", turn=1, reason="done")),
    "a turn that is a text": ("settle", event(type="turn/start", turn="1")),
    "a turn number nought": ("settle", event(type="turn/start", turn=0)),
    "an answer without calls": ("settle", event(type="assistant/message", text="x")),
    "a result of no call": ("settle", event(type="tool/result", error=False)),
    "a splice before the list": ("settle", event(type="agent/inbox/spliced", target="next-turn", start=-1)),
    "a notice without a name": ("settle", {"notices": [{"status": "idle"}]}),
    "a status that is not told": ("settle", {"notices": [{"name": "agent/status"}]}),
    "a gate without a name": ("settle", gate(kind="model", messages=[])),
    "a gate that nobody knows": ("settle", gate(gate="g1", kind="door")),
    "a model gate without messages": ("settle", gate(gate="g1", kind="model")),
    "a message without a role": ("settle", gate(gate="g1", kind="model", messages=[{"text": "x"}])),
    "a tool gate without a call": ("settle", gate(gate="g1", kind="tool")),
    "a reservation that is not told": ("reserve", {"reserved": None}),
    "an outcome that nobody knows": ("update", {"outcome": "done"}),
}
# What is written instead of the reply to `open`, and ahead of it, and behind it.
BYTES = {
    "a list": b"[1, 2]\n",
    "null": b"null\n",
    "no JSON": b"certainly\n",
    "not a number": b'{"id": 2, "ok": true, "x": NaN}\n',
    "no UTF-8": b'{"id": 2, "ok": true, "x": "\xff"}\n',
    "an abyss": b'{"id": 2, "ok": true, "x": ' + b"[" * 200_000 + b"\n",
    "a number without end": b'{"id": 2, "ok": true, "x": ' + b"9" * 10_000 + b"}\n",
    "an object in two lines": b'{"id": 2,\n "ok": true}\n',
    "an empty line": b"\n",
    "no id": b'{"ok": true}\n',
    "no ok": b'{"id": 2}\n',
}
BEFORE = {"a banner": b"Starting up\n", "garbage between the lines": b"DEBUG: open\n"}
AFTER = {"garbage behind a reply": b"DEBUG: opened\n", "two replies": b'{"id": 2, "ok": true}\n'}


def main(fault):
    out = sys.stdout.buffer
    last = b""
    if fault == "a banner":
        out.write(BEFORE[fault])
    if fault == "it ends at once":
        sys.exit("no such model")
    if fault == "it reads nothing":
        time.sleep(1000)
    for line in sys.stdin.buffer:
        request = json.loads(line)
        verb = request["do"]
        reply = {"id": request["id"], "ok": True, **REPLIES.get(verb, {})}
        field_of, fields = FIELDS.get(fault, ("", {}))
        if verb == field_of:
            reply |= fields
        told = json.dumps(reply).encode() + b"\n"
        if verb == "open":
            told = disturbed(fault, told, last)
        last = told
        out.write(told)
        out.flush()
        if verb == "close":
            sys.exit(5 if fault == "a bad end" else 0)
    if fault == "it does not end":
        time.sleep(1000)


def disturbed(fault, told, last):
    """The reply to `open` with the fault in it."""
    if fault in BYTES:
        return BYTES[fault]
    if fault == "it repeats its last reply":
        return last
    if fault == "it dies":
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault == "it ends":
        print("\n".join(f"line {number}" for number in range(20)), file=sys.stderr)
        sys.exit(3)
    elif fault in ("it says nothing", "it answers too late"):
        time.sleep(1000)
    elif fault == "half a line":
        sys.stdout.buffer.write(told[:9])
        sys.stdout.buffer.flush()
        time.sleep(1000)
    elif fault == "half a line at its end":
        sys.stdout.buffer.write(told[:9])
        sys.stdout.buffer.flush()
        sys.exit(0)
    elif fault == "it closes its output":
        os.close(1)
        time.sleep(1000)
    elif fault == "a hundred megabytes":
        for _ in range(100):
            sys.stdout.buffer.write(b"x" * 10**6)
    elif fault == "much on stderr":
        sys.stderr.write("chatter\n" * 10**6)
    return BEFORE.get(fault, b"") * (fault != "a banner") + told + AFTER.get(fault, b"")


if __name__ == "__main__":
    main(sys.argv[1])
