"""The least server of tools: plain Python, one line in, one line out. Its first argument says how many tools it lists."""

import json
import sys

COUNT = int(sys.argv[1])
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
HINTS = {"readOnlyHint": True}
TOOLS = [
    {"name": f"echo{number}", "description": "Say it again. " * 10, "inputSchema": SCHEMA, "annotations": HINTS}
    for number in range(COUNT)
]

for line in sys.stdin:
    message = json.loads(line)
    method, params = message.get("method"), message.get("params", {})
    if "id" not in message:
        continue
    if method == "initialize":
        server = {"name": "bench", "version": "1"}
        answer = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": server}
    elif method == "tools/list":
        answer = {"tools": TOOLS}
    elif method == "tools/call":
        answer = {"content": [{"type": "text", "text": params["arguments"]["text"]}]}
    else:
        error = {"code": -32601, "message": "unknown"}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}), flush=True)
