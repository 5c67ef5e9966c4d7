"""Whether an answer is what its tool promised: clients refuse one that is not."""

import json
from functools import lru_cache
from typing import Any

from kitbag.results import ToolResult
from kitbag.tools import Tool


def complaint_about(tool: Tool, result: ToolResult) -> str:
    """Say how a value breaks the output schema of its tool; empty when it does not."""
    if not tool.output_schema:
        return ""
    if result.structured is None:
        return f"{tool.id} declares what it returns, and returned no JSON value"
    check = _validator(json.dumps(tool.output_schema, sort_keys=True))
    if check is None:
        return ""
    error = next(iter(check.iter_errors(result.structured)), None)
    return "" if error is None else f"{tool.id} returned what it does not declare: {error.message}"


@lru_cache(maxsize=1024)
def _validator(schema: str) -> Any:
    import jsonschema_rs

    try:
        return jsonschema_rs.validator_for(json.loads(schema), offline=True)
    except (ValueError, jsonschema_rs.ValidationError):
        return None  # a schema that cannot be read promises nothing
