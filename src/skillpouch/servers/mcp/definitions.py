"""A tool as MCP shows it: schemas, and hints that follow from its effects."""

from collections.abc import Mapping
from typing import Any

from mcp_types import Tool as McpTool
from mcp_types import ToolAnnotations

from skillpouch.registry.names import model_schema
from skillpouch.servers.mcp.eras import Context, is_modern
from skillpouch.servers.mcp.offer import Snapshot
from skillpouch.tools import Tool

_CHANGING = frozenset(("write", "destructive", "execute"))
ID_KEY = "skillpouch/id"


class Definitions:
    """What `tools/list` shows, made once for each snapshot and protocol."""

    def __init__(self) -> None:
        self._made: dict[bool, tuple[Snapshot, dict[str, McpTool]]] = {}

    def of(self, snapshot: Snapshot, context: Context) -> dict[str, McpTool]:
        """Return the definitions of all tools by name, in order."""
        modern = is_modern(context)
        known = self._made.get(modern)
        if known is None or known[0] is not snapshot:
            made = {name: definition(tool, modern) for name, tool in snapshot.tools.items()}
            known = self._made[modern] = (snapshot, made)
        return known[1]


def definition(tool: Tool, modern: bool) -> McpTool:
    """Return one tool; an older client is not shown an output that is no object."""
    return McpTool(
        name=tool.name,
        title=tool.id,
        description=_description(tool),
        input_schema=_input_schema(model_schema(tool.input_schema)),
        output_schema=output_schema(tool, modern),
        annotations=_annotations(tool),
        _meta={ID_KEY: tool.id},
    )


def output_schema(tool: Tool, modern: bool) -> dict[str, Any] | None:
    """Return what a client is told of the answer, if its protocol can say it."""
    schema = tool.output_schema
    if not schema:
        return None
    return dict(schema) if modern or schema.get("type") == "object" else None


def _input_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    if not schema.get("properties") and len(schema) <= 1:
        return {"type": "object", "additionalProperties": False}
    return {**schema, "type": "object"}


def _description(tool: Tool) -> str:
    if not tool.missing:
        return tool.description
    return f"{tool.description}\n\nNot ready: {'; '.join(tool.missing)}"


def _annotations(tool: Tool) -> ToolAnnotations:
    effects = frozenset(tool.effects)
    return ToolAnnotations(
        read_only_hint=effects.isdisjoint(_CHANGING),
        destructive_hint="destructive" in effects,
        open_world_hint="network" in effects,
    )
