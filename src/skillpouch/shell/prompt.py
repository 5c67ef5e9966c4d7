"""What a model is told about a scripted tool: every command, or what fits a budget of tokens."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from skillpouch.shell.toolbox import ToolDef
from skillpouch.shell.usage import full_lines, one_line, short_line

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


_TIPS = """\
## Tips

- Pass arguments as `--key value` or `--key=value` flags
- Pipe tool output through `jq` for JSON processing
- Use variables to pass data between tool calls
"""
_OWN_COMMANDS = """\
Commands of every script:
  help NAME             how a command is written, its types and examples
  discover WORDS        commands that do what the words say, best first
  pmap -j N COMMAND {}  run a command for each line of input, N at a time, in order
  job start COMMAND     start a command that takes long, and print the id of its job;
                        job wait ID, job output ID and job cancel ID go on with it
  result                make the JSON on standard input the value of the whole script

NAME --help does what help NAME does. Each command takes --key value or --key=value,
--json '{…}', --stdin-json, and its parameters as plain words in order.
"""
_BYTES_PER_TOKEN = 4
_WIDEST_NAME = 32


def system_prompt(
    name: str, tools: Sequence[ToolDef], *, short_description: str = "", budget: int | None = None
) -> str:
    """Return the markdown for a model; the same tools and budget give the same text.

    `budget` counts tokens, of four bytes each. When the whole is longer, commands are grouped;
    first every group is named, then its commands, then what they do, then how they are written,
    each as far as the budget goes, the first commands of all groups before the second ones.
    """
    opening = _opening(name, short_description)
    body = "".join(full_lines(tool) for tool in tools)
    whole = f"{opening}## Available tool commands\n\n{body}\n{_TIPS}"
    if budget is None or tokens(whole) <= budget:
        return whole
    groups = group_commands(tools)
    steps = len(groups) + 3 * len(tools)
    most = _most_that_fits(opening, groups, steps, budget)
    return _compact(opening, groups, most)


def tokens(text: str) -> int:
    """Return how many tokens a text is taken to be; no tokenizer is asked."""
    return -(-len(text.encode("utf-8", "replace")) // _BYTES_PER_TOKEN)


def _opening(name: str, short_description: str) -> str:
    about = f"{one_line(short_description)}\n\n" if short_description.strip() else ""
    return (
        f"# {name}\n\n{about}"
        'Input: {"commands": "<bash script>"}\n'
        "Output: {stdout, stderr, exit_code}\n\n"
    )


def _most_that_fits(opening: str, groups: Sequence[CommandGroup], steps: int, budget: int) -> int:
    fits, too_many = 0, steps + 1
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        if tokens(_compact(opening, groups, middle)) <= budget:
            fits = middle
        else:
            too_many = middle
    return fits


def _compact(opening: str, groups: Sequence[CommandGroup], steps: int) -> str:
    count = sum(len(group.commands) for group in groups)
    named = max(0, steps - len(groups))
    levels = [
        (rank < named) + (rank < named - count) + (rank < named - 2 * count)
        for rank in range(count)
    ]
    pages = "".join(group.page(levels) for group in groups[:steps])
    left = len(groups) - min(steps, len(groups))
    more = f"… and {left} more groups\n\n" if left and pages else ""
    return (
        f"{opening}## Available tool commands\n\n"
        f"{count} commands in {len(groups)} groups; `discover WORDS` finds those you need, "
        f"`help NAME` shows how one is written.\n\n{pages}{more}{_TIPS}"
    )


def help_page(name: str, tools: Sequence[ToolDef], *, short_description: str = "") -> str:
    """Return what `help` prints: all commands, and those that every script has."""
    about = f": {one_line(short_description)}" if short_description.strip() else ""
    width = min(max((len(tool.name) for tool in tools), default=0), _WIDEST_NAME)
    lines = [f"  {tool.name:<{width}}  {one_line(tool.description)}".rstrip() for tool in tools]
    commands = "\n".join(lines) or "  none"
    return f"{name}{about}\n\nCommands of this tool:\n{commands}\n\n{_OWN_COMMANDS}"
