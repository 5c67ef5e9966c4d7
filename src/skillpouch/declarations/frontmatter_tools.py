"""Frontmatter `tools:`: mappings declare tools, strings only name tools of the host."""

from typing import Any

from skillpouch.declarations.declared import Declared, Report
from skillpouch.declarations.entries import declares_tool, read_entries
from skillpouch.declarations.strict_yaml import YamlPath

_DECLARING = {"description", "url", "bin", "backend", "parameters", "inputSchema", "input_schema"}


def read_frontmatter_tools(tools: Any, report: Report) -> list[Declared]:
    """Return the tools declared under `tools:`; what is no declaration is a hint, and kept so."""
    if tools is None or isinstance(tools, str):
        return []
    if isinstance(tools, dict):
        entries = _keyed(tools)
    elif isinstance(tools, list):
        entries = _listed(tools)
        # Strings, as in `tools: [Bash, Read]`, name tools of the host and are no surprise.
        tools = [entry for entry in tools if not isinstance(entry, str)]
    else:
        report.add(
            "tools-ignored", "warning", "`tools` is neither a list nor a mapping", ("tools",)
        )
        return []
    if len(entries) < len(tools):
        message = "entries of `tools` that describe no tool are ignored"
        report.add("tools-ignored", "warning", message, ("tools",))
    return read_entries(entries, "frontmatter", report)


def _listed(tools: list[Any]) -> list[tuple[YamlPath, Any]]:
    return [
        (("tools", number), entry)
        for number, entry in enumerate(tools)
        if not isinstance(entry, str) and declares_tool(entry)
    ]


def _keyed(tools: dict[str, Any]) -> list[tuple[YamlPath, Any]]:
    """Read `{name: {description: …}}` as a list of declarations."""
    return [
        (("tools", name), {"name": name, **entry})
        for name, entry in tools.items()
        if isinstance(entry, dict) and _DECLARING & entry.keys()
    ]
