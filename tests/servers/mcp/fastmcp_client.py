"""Makes a call with the tasks client of FastMCP, in its own environment.

Reads an order on standard input, prints JSON.
"""

import asyncio
import json
import sys
from typing import Any

from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport
from fastmcp_tasks.client import call_tool_task


async def main() -> None:
    order = json.load(sys.stdin)
    forms: list[str] = []

    async def answered(message: str, *_: object) -> Any:
        forms.append(message)
        given = order["answer"]
        return ElicitResult(action=given["action"], content=given.get("content"))

    options: dict[str, Any] = {"elicitation_handler": answered} if "answer" in order else {}
    where = order.get("url") or StdioTransport(
        order["command"], order["args"], env=order["env"], keep_alive=False
    )
    async with Client(where, **options) as client:
        if order.get("whole"):
            result = await client.call_tool(order["tool"], order["arguments"], raise_on_error=False)
            told = {"text": result.content[0].text, "is_error": result.is_error}
        else:
            told = await driven(client, order)
    sys.stdout.write(json.dumps({**told, "forms": forms}))


async def driven(client: Any, order: dict[str, Any]) -> dict[str, Any]:
    task = await call_tool_task(client, order["tool"], order["arguments"])
    first = await task.status()
    if order.get("cancel"):
        await task.cancel()
        last = await task.wait(timeout=60)
        return {"id": task.task_id, "first": first.status, "last": last.status}
    result = await task.result()
    last = await task.status()
    return {
        "id": task.task_id,
        "first": first.status,
        "last": last.status,
        "text": result.content[0].text,
    }


asyncio.run(main())
