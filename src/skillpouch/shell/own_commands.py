"""The commands that every script has: help, discover, result."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from skillpouch.errors import nearest
from skillpouch.json_values import LARGEST_VALUE, NO_VALUE, json_value
from skillpouch.shell.finding import discover
from skillpouch.shell.prompt import help_page
from skillpouch.shell.tool_def import ToolDef
from skillpouch.shell.usage import usage_line, usage_page
from skillpouch.shell.worker.order import Answer

# Commands of the engine that would do nothing, or not what they say: name → why.
STUBS = {
    **dict.fromkeys(("curl", "wget", "http"), "disabled: scripts reach the network through tools"),
    "parallel": "disabled: `pmap -j N TOOL {}` runs a tool for each line, N at a time",
}


class ResultBox:
    """What the command `result` sets: the value of the whole script."""

    def __init__(self) -> None:
        self.value: Any = None

    def set(self, words: Sequence[str], stdin: str | None) -> Answer:
        text = words[0] if words else stdin or ""
        if len(words) > 1:
            return Answer("", "result: one JSON value; quote it\n", 2)
        if len(text) > LARGEST_VALUE:
            hint = f"{LARGEST_VALUE:,} characters are the most; write more to a file below /out"
            return Answer("", f"result: a value of {len(text):,} characters\nhint: {hint}\n", 2)
        value = json_value(text)
        if value is NO_VALUE:
            hint = "quote it, or pipe JSON into it: … | jq '{total: .n}' | result"
            return Answer("", f"result: {text[:80]!r} is no JSON\nhint: {hint}\n", 2)
        self.value = value
        return Answer()


def help_for(words: Sequence[str], name: str, tools: Mapping[str, ToolDef], about: str) -> Answer:
    """Answer `help`, `help NAME` and `help --json NAME`."""
    names = [word for word in words if word != "--json"]
    if not names:
        return Answer(_line(help_page(name, list(tools.values()), short_description=about)))
    tool = tools.get(names[0])
    if tool is None:
        near = nearest(names[0], tools)
        meant = f"did you mean {' or '.join(near)}?" if near else "`discover WORDS` finds commands"
        return Answer("", f"help: no command named {names[0]}\nhint: {meant}\n", 1)
    return Answer(_line(_as_json(tool) if "--json" in words else usage_page(tool)))


def discovered(words: Sequence[str], tools: Mapping[str, ToolDef]) -> Answer:
    """Answer `discover WORDS`: what fits, best first, and how it is written."""
    found = discover(words, tools.values())
    if not found:
        return Answer("", "discover: no command does that; `help` shows all\n", 1)
    lines = [f"{tool.name}: {tool.description}\n  {usage_line(tool)}\n" for tool in found]
    return Answer("".join(lines))


def _as_json(tool: ToolDef) -> str:
    return json.dumps(
        {
            "name": tool.name,
            "description": tool.description,
            "input_schema": tool.input_schema,
            "output_schema": tool.output_schema,
            "effects": list(tool.effects),
        }
    )


def _line(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"
