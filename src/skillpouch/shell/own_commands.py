"""The commands that every script has: help, discover and result."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from skillpouch.errors import nearest
from skillpouch.json_values import LARGEST_VALUE, NO_VALUE, json_value
from skillpouch.shell.prompt import help_page
from skillpouch.shell.schema_shapes import properties_of
from skillpouch.shell.toolbox import ToolDef
from skillpouch.shell.usage import usage_line, usage_page
from skillpouch.shell.worker.protocol import CommandReply

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD = re.compile(r"[^\W_]+")
_FILLERS = frozenset(
    {"a", "an", "and", "at", "by", "for", "in", "is", "of", "on", "or", "the", "to"}
)
_NAME, _DESCRIPTION, _PARAMETER = 6.0, 3.0, 2.0
_MOST_WORDS = 32
_LONGEST_WORD = 64
_MOST_READ = 2_000  # characters of a description: what comes later describes details
_SHORTEST_BEGINNING = 3


def discover(
    words: str | Sequence[str], tools: Iterable[ToolDef], *, most: int = 20
) -> list[ToolDef]:
    """Return the tools that words describe, best first; without words, the first tools.

    A word counts the more, the fewer tools it describes; one that describes none is taken for
    the nearest one that does.
    """
    tools = list(tools)
    wanted = _wanted(words if isinstance(words, str) else " ".join(words))
    if not wanted:
        return tools[:most]
    weights = [_weights(tool) for tool in tools]
    counts = Counter(term for each in weights for term in each)
    scores = [0.0] * len(tools)
    for term in wanted:
        _add(scores, weights, _meant(term, counts))
    ranked = sorted(range(len(tools)), key=lambda each: (-scores[each], tools[each].name))
    return [tools[each] for each in ranked[:most] if scores[each]]


def _wanted(text: str) -> list[str]:
    terms = list(dict.fromkeys(_terms(text)))
    return [term for term in terms if term not in _FILLERS][:_MOST_WORDS] or terms[:_MOST_WORDS]


def _terms(text: str) -> list[str]:
    """Return the words of a text in lower case, without the `s` of a plural."""
    return [
        word.removesuffix("s") if len(word) > _SHORTEST_BEGINNING else word
        for word in _WORD.findall(_HUMP.sub(" ", text).lower())
    ]


def _weights(tool: ToolDef) -> dict[str, float]:
    """Return how much each word says about a tool, by the best place where it stands."""
    found = dict.fromkeys(_terms(" ".join(properties_of(tool.input_schema))), _PARAMETER)
    found |= dict.fromkeys(_terms(tool.description[:_MOST_READ]), _DESCRIPTION)
    return found | dict.fromkeys(_terms(tool.name), _NAME)


def _meant(term: str, known: Counter[str]) -> dict[str, float]:
    """Return the known words that a term stands for, and how well each does."""
    if term in known:
        return {term: 1.0}
    if len(term) >= _SHORTEST_BEGINNING:
        longer = {each: 0.6 for each in known if each.startswith(term)}
        if longer:
            return longer
    return dict.fromkeys(nearest(term[:_LONGEST_WORD], sorted(known), most=2), 0.4)


def _add(scores: list[float], weights: list[dict[str, float]], meant: dict[str, float]) -> None:
    found: dict[int, float] = {}
    for number, each in enumerate(weights):
        fits = [each[term] * share for term, share in meant.items() if term in each]
        if fits:
            found[number] = max(fits)
    rarity = math.log(1 + len(scores) / max(1, len(found)))
    for number, weight in found.items():
        scores[number] += weight * rarity


# Commands of the engine that would do nothing, or not what they say: name → why.
STUBS = {
    **dict.fromkeys(("curl", "wget", "http"), "disabled: scripts reach the network through tools"),
    "parallel": "disabled: `pmap -j N TOOL {}` runs a tool for each line, N at a time",
}


class ResultBox:
    """What the command `result` sets: the value of the whole script."""

    def __init__(self) -> None:
        self.value: Any = None

    def set(self, words: Sequence[str], stdin: str | None) -> CommandReply:
        text = words[0] if words else stdin or ""
        if len(words) > 1:
            return CommandReply("", "result: one JSON value; quote it\n", 2)
        if len(text) > LARGEST_VALUE:
            hint = f"{LARGEST_VALUE:,} characters are the most; write more to a file below /out"
            return CommandReply(
                "", f"result: a value of {len(text):,} characters\nhint: {hint}\n", 2
            )
        value = json_value(text)
        if value is NO_VALUE:
            hint = "quote it, or pipe JSON into it: … | jq '{total: .n}' | result"
            return CommandReply("", f"result: {text[:80]!r} is not JSON\nhint: {hint}\n", 2)
        self.value = value
        return CommandReply()


def help_for(
    words: Sequence[str], name: str, tools: Mapping[str, ToolDef], about: str
) -> CommandReply:
    """Answer `help`, `help NAME` and `help --json NAME`."""
    names = [word for word in words if word != "--json"]
    if not names:
        return CommandReply(_line(help_page(name, list(tools.values()), short_description=about)))
    tool = tools.get(names[0])
    if tool is None:
        near = nearest(names[0], tools)
        meant = f"did you mean {' or '.join(near)}?" if near else "`discover WORDS` finds commands"
        return CommandReply("", f"help: no command named {names[0]}\nhint: {meant}\n", 1)
    return CommandReply(_line(_as_json(tool) if "--json" in words else usage_page(tool)))


def discovered(words: Sequence[str], tools: Mapping[str, ToolDef]) -> CommandReply:
    """Answer `discover WORDS`: the commands that fit, best first, each with its usage."""
    found = discover(words, tools.values())
    if not found:
        return CommandReply("", "discover: no command matches; `help` shows all\n", 1)
    lines = [f"{tool.name}: {tool.description}\n  {usage_line(tool)}\n" for tool in found]
    return CommandReply("".join(lines))


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
