"""A server that says what the file beside it tells it to, whatever the protocol allows."""

import json
import sys
from pathlib import Path

says = json.loads(Path(sys.argv[1]).read_text())

for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    match message["method"]:
        case "initialize":
            answer["result"] = {
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "hostile", "version": "1"},
            }
        case "tools/list" if says["tools"] is None:
            continue
        case "tools/list":
            answer["result"] = {"tools": says["tools"]}
        case "tools/call":
            answer["result"] = says["answer"]
        case _:
            answer["error"] = {"code": -32601, "message": "no such method"}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
