"""Commands in groups: those of one skill, or those whose names speak of the same thing."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from skillpouch.shell.command_lines import full_lines, short_line
from skillpouch.shell.tool_def import ToolDef

_VERB_WORDS = """
add apply book call cancel check close compute copy count create delete describe download execute
export fetch find generate get import insert is list load lookup make move open patch post put query
read remove rename render replace run save search send set show start stop store submit sync test
update upload validate write
"""
_VERBS = frozenset(_VERB_WORDS.split())
_OTHERS = "other"

# How much a prompt tells of a command.
COUNTED, NAMED, DESCRIBED, WRITTEN = range(4)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandGroup:
    """Some commands, each with its rank among all: lower ranks are told first."""

    name: str
    commands: tuple[tuple[int, ToolDef], ...]

    def page(self, levels: Sequence[int]) -> str:
        """Return the group's part of a prompt; `levels` says by rank how much is told."""
        lines = [f"### {self.name} ({len(self.commands)})\n\n"]
        lines += [full_lines(tool) for rank, tool in self.commands if levels[rank] == WRITTEN]
        lines += [short_line(tool) for rank, tool in self.commands if levels[rank] == DESCRIBED]
        names = [f"`{tool.name}`" for rank, tool in self.commands if levels[rank] == NAMED]
        counted = sum(levels[rank] == COUNTED for rank, _ in self.commands)
        names += [f"{counted} more"] if counted and len(lines) + len(names) > 1 else []
        return "".join(lines) + (f"- {', '.join(names)}\n" if names else "") + "\n"


def group_commands(tools: Sequence[ToolDef]) -> list[CommandGroup]:
    """Return groups in the order of their first command; one of its own is not worth a group."""
    topics = [_topic(tool.name) for tool in tools]
    sizes = Counter(topics)
    found: dict[str, list[ToolDef]] = {}
    for tool, topic in zip(tools, topics, strict=True):
        found.setdefault(topic if sizes[topic] > 1 else _OTHERS, []).append(tool)
    ranks = {id(tool): rank for rank, tool in enumerate(_in_turn(list(found.values())))}
    return [
        CommandGroup(name=name, commands=tuple((ranks[id(tool)], tool) for tool in members))
        for name, members in found.items()
    ]


def _topic(name: str) -> str:
    """Return `weather` for weather.get, `order` for list_orders, `github` for github_star."""
    skill, dot, _ = name.partition(".")
    if dot:
        return skill
    words = [word for word in name.replace("-", "_").lower().split("_") if word]
    topic = next((word for word in words if word not in _VERBS), _OTHERS)
    return topic.removesuffix("s")


def _in_turn(groups: Sequence[Sequence[ToolDef]]) -> Iterator[ToolDef]:
    """Yield the first of each group, then the second of each: no group is told last."""
    for turn in zip_longest(*groups):
        yield from (tool for tool in turn if tool is not None)
