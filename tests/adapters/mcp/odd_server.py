"""A server of tools that misbehaves when it is told to: one tool for each way. Plain Python, so that it starts at once.

Started as ``python odd_server.py RECORD MODE``: what it reads is appended to RECORD, a line of JSON each; MODE says how
it starts: ``well``, ``silent`` (never answers), ``dead`` (ends at once), ``babbling`` (no JSON), ``strange`` (odd schemas),
``unlistable`` (a listing that breaks the protocol).
"""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

RECORD, MODE = sys.argv[1], sys.argv[2]
READ_ONLY = {"readOnlyHint": True}
PLAIN = {"type": "object"}
lock = threading.Lock()
tools = {
    "echo": {"inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}, "annotations": READ_ONLY},
    "harm": {"annotations": {"destructiveHint": True}},
    "unsaid": {},
    "wait": {"annotations": READ_ONLY},
    "stubborn": {"annotations": READ_ONLY},
    "die": {"annotations": READ_ONLY},
    "deaf": {"annotations": READ_ONLY},
    "huge": {"annotations": READ_ONLY},
    "endless": {"annotations": READ_ONLY},
    "flood": {"annotations": READ_ONLY},
    "garbage": {"annotations": READ_ONLY},
    "strangers": {"annotations": READ_ONLY},
    "lie": {
        "outputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
        "annotations": READ_ONLY,
    },
    "fail": {"annotations": READ_ONLY},
    "refuse": {"annotations": READ_ONLY},
    "malformed": {"annotations": READ_ONLY},
    "steps": {"annotations": READ_ONLY},
    "change": {"annotations": READ_ONLY},
    "elicit": {"annotations": READ_ONLY},
    "sample": {"annotations": READ_ONLY},
    "env": {"annotations": READ_ONLY},
    "child": {"annotations": READ_ONLY},
    "complain": {"annotations": READ_ONLY},
}
if MODE == "strange":
    tools = {
        "good": {"annotations": READ_ONLY},
        "no object": {},
        "nowhere": {"inputSchema": {"type": "object", "properties": {"a": {"$ref": "#/definitions/gone"}}}},
        "": {},
        "x" * 500: {},
        "output": {"outputSchema": {"type": "object", "properties": {"a": {"$ref": "#/gone"}}}},
    }
if MODE == "unlistable":
    tools["array"] = {"inputSchema": {"type": "array"}}
waiting = {}


def write(**message):
    line = json.dumps({"jsonrpc": "2.0", **message}).encode()
    with lock:
        sys.stdout.buffer.write(line + b"\n")
        sys.stdout.buffer.flush()


def raw(data):
    with lock:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def text(told, **more):
    return {"content": [{"type": "text", "text": told}], **more}


def listing():
    return [
        {"name": name, "description": f"Does {name}.", "inputSchema": PLAIN, **tool} for name, tool in tools.items()
    ]


def call(id, name, arguments, meta):  # noqa: C901  # one branch for each tool
    if name == "echo":
        return text(arguments.get("text", ""))
    if name in ("harm", "unsaid", "good", "output"):
        return text("done")
    if name == "wait":
        waiting[id] = True
        return None
    if name == "die":
        os._exit(3)
    if name == "deaf":
        time.sleep(3600)
    if name == "huge":
        return text("x" * arguments["bytes"])
    if name == "endless":
        while True:
            raw(b"x" * 65536)
    if name == "flood":
        for number in range(arguments["messages"]):
            write(method="notifications/message", params={"level": "info", "data": number})
        return text("flooded")
    if name == "garbage":
        raw(b"this is no JSON\n\xff\xfe\n{}\n[1,2]\n\n" + b'{"jsonrpc":"2.0","id":987654,"result":{}}\n')
        return text("still here")
    if name == "strangers":
        for number in range(50):
            write(method="odd/request", id=f"r{number}", params={})
        return text("asked")
    if name == "lie":
        return text("{}", structuredContent={"n": "many"})
    if name == "fail":
        return text("it did not work", isError=True)
    if name == "refuse":
        write(id=id, error={"code": -32602, "message": "not with these arguments"})
        return None
    if name == "malformed":
        write(id=id, result={"content": "no list"})
        return None
    if name == "steps":
        for number in range(3):
            params = {
                "progressToken": meta.get("progressToken"),
                "progress": number + 1,
                "total": 3,
                "message": f"step {number}",
            }
            write(method="notifications/progress", params=params)
        return text("stepped")
    if name == "change":
        tools["fresh"] = {"annotations": READ_ONLY}
        tools.pop("fail", None)
        write(method="notifications/tools/list_changed")
        return text("changed")
    if name == "elicit":
        waiting["q1"] = id
        fields = {"name": {"type": "string"}, "age": {"type": "integer", "default": 30}}
        schema = {"type": "object", "properties": fields}
        write(id="q1", method="elicitation/create", params={"message": "Who?", "requestedSchema": schema})
        return None
    if name == "sample":
        waiting["q2"] = id
        asked = {"role": "user", "content": {"type": "text", "text": "2 + 3?"}}
        write(id="q2", method="sampling/createMessage", params={"messages": [asked], "maxTokens": 9})
        return None
    if name == "env":
        return text(json.dumps(dict(os.environ)))
    if name == "child":
        child = subprocess.Popen(["sleep", "3600"])
        return text(str(child.pid))
    if name == "complain":
        sys.stderr.write("a complaint\n" + "y" * arguments.get("bytes", 0) + "\n")
        sys.stderr.flush()
        return text("complained")
    raise AssertionError(name)


def answer(message):
    method, id, params = message.get("method"), message.get("id"), message.get("params") or {}  # noqa: A001  # the protocol's word
    if method is None:
        asked = waiting.pop(id, None)
        if asked is not None:
            write(id=asked, result=text(json.dumps(message.get("result") or message.get("error"))))
    elif method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "serverInfo": {"name": "odd", "version": "1"}}
        write(id=id, result={**result, "capabilities": {"tools": {"listChanged": True}}})
    elif method == "tools/list":
        write(id=id, result={"tools": listing()})
    elif method == "tools/call":
        result = call(id, params["name"], params.get("arguments") or {}, params.get("_meta") or {})
        if result is not None:
            write(id=id, result=result)
    elif id is not None:
        write(id=id, error={"code": -32601, "message": "unknown"})


if MODE == "dead":
    sys.exit(7)
if MODE == "babbling":
    print("Welcome! Press any key.", flush=True)
with Path(RECORD).open("a", encoding="utf-8") as record:
    record.write(json.dumps({"method": "started", "pid": os.getpid()}) + "\n")
    record.flush()
    for line in sys.stdin:
        got = json.loads(line)
        record.write(json.dumps(got) + "\n")
        record.flush()
        if MODE not in ("silent", "babbling"):
            answer(got)
