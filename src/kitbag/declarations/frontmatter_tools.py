"""Frontmatter `tools:`: mappings declare tools, strings only name tools of the host."""

from typing import Any

from kitbag.declarations.declared import Declared, Report
from kitbag.declarations.entries import read_entries

_DECLARING = {"description", "url", "bin", "backend", "parameters", "inputSchema", "input_schema"}


def read_frontmatter_tools(tools: Any, report: Report) -> list[Declared]:
    """Return the tools declared under `tools:`; what is no declaration is a hint, and kept so."""
    if tools is None or isinstance(tools, str):
        return []
    if isinstance(tools, dict):
        tools = _keyed(tools, report)
    if not isinstance(tools, list):
        report.add(
            "tools-ignored", "warning", "`tools` is neither a list nor a mapping", ("tools",)
        )
        return []
    # A string among them, as in `tools: [Bash, Read]`, names a tool of the host.
    if any(isinstance(entry, str) for entry in tools):
        tools = [entry for entry in tools if not isinstance(entry, str)]
    return read_entries(tools, "frontmatter", report, at=("tools",))


def _keyed(tools: dict[str, Any], report: Report) -> list[Any]:
    """Read `{name: {description: …}}` as a list of declarations."""
    entries = [
        {"name": name, **entry}
        for name, entry in tools.items()
        if isinstance(entry, dict) and _DECLARING & entry.keys()
    ]
    if len(entries) < len(tools):
        message = "entries of `tools` that describe no tool are ignored"
        report.add("tools-ignored", "warning", message, ("tools",))
    return entries
