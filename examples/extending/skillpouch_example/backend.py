"""Tools of `type: sqlite`: a query of a database file, with the arguments as its parameters."""

import asyncio
import json
import sqlite3

from skillpouch.calls import ToolCall
from skillpouch.results import ToolResult
from skillpouch.tools import External


class SqliteBackend:
    """Reads; what a query gives is a list of rows, each with its columns by name."""

    async def run(self, call: ToolCall) -> ToolResult:
        runs = call.tool.runs
        assert isinstance(runs, External)
        path = call.terms.workspace / runs.options.get("database", "data.db")
        connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, check_same_thread=False)
        connection.row_factory = sqlite3.Row
        query = asyncio.create_task(asyncio.to_thread(_rows, connection, runs, call))
        try:
            rows = await asyncio.shield(query)
        except sqlite3.Error as error:
            said = f"sqlite: {error}"
            return ToolResult(
                tool=call.tool.id, outcome="failed", exit_code=1, content=said, stderr=said
            )
        except asyncio.CancelledError:
            connection.interrupt()  # a thread cannot be cancelled, but its query can be ended
            await asyncio.wait({query})
            query.exception()
            raise
        finally:
            connection.close()
        text = json.dumps(rows, ensure_ascii=False)
        if call.on_output is not None:
            call.on_output("stdout", text.encode())
        return ToolResult(
            tool=call.tool.id, outcome="ok", exit_code=0, content=text, structured=rows, stdout=text
        )


def _rows(connection: sqlite3.Connection, runs: External, call: ToolCall) -> list[dict]:
    parameters = {**call.arguments, **call.access.secrets}
    return [dict(row) for row in connection.execute(runs.options["query"], parameters)]
