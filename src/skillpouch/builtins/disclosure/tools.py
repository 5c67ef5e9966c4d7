"""`activate_skill`, `read_skill_file`, `search_tools`: how an agent finds skills and tools."""

import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from skillpouch.builtins.disclosure.activation import (
    activate,
    element,
    is_offered,
    marked,
    offered_skill,
)
from skillpouch.builtins.workspace.context import Definition, ToolAnswer, number, text
from skillpouch.builtins.workspace.read import show
from skillpouch.calls import ToolCall
from skillpouch.errors import (
    CallDeniedError,
    OutsideWorkspaceError,
    SkillUnreadableError,
    ToolFaultError,
)
from skillpouch.runtime.memoize import Shared
from skillpouch.skills import Skill
from skillpouch.tools import Tool, model_schema
from skillpouch.workspace.files import WorkspaceFiles


def activate_skill(names: Sequence[str]) -> Definition:
    """Define the tool that returns the instructions of one of these skills."""
    return Definition(
        name="activate_skill",
        description=(
            "Load a skill before working on what it is for: its instructions, its files, and the"
            " tools it has."
        ),
        parameters={
            "name": text("the skill", enum=list(names)),
            "arguments": text("what the skill should work on, if it takes arguments", default=""),
        },
        required=("name",),
    )


def read_skill_file(names: Sequence[str]) -> Definition:
    """Define the tool that shows a file of one of these skills."""
    return Definition(
        name="read_skill_file",
        description=(
            "Read a file of a skill, such as one that its instructions refer to: its lines with"
            " their numbers, or an image."
        ),
        parameters={
            "skill": text("the skill", enum=list(names)),
            "path": text("the file, relative to the folder of the skill"),
            "offset": number("lines to leave out at the start (0: from the first)", default=0),
            "limit": number("lines to show at most", minimum=1, default=2000),
        },
        required=("skill", "path"),
    )


def search_tools() -> Definition:
    """Define the tool that finds skills and tools."""
    return Definition(
        name="search_tools",
        description=(
            "Find skills and tools by what they do, best first, with what each tool takes."
        ),
        parameters={
            "query": text("a few words about what is to be done"),
            "limit": number("how many to show at most", minimum=1, maximum=50, default=8),
        },
        required=("query",),
    )


def activate_one(call: ToolCall, found: "DisclosedSkills") -> ToolAnswer:
    """Return the text of `SkillManager.invoke_skill` in tags, with the tools of the skill."""
    # A copy, so that the file is read again and not taken from the cache of the skill.
    skill = replace(offered_skill(found.skills, call.arguments["name"]))
    try:
        instructions = activate(skill, call.arguments.get("arguments", ""))
    except SkillUnreadableError as error:
        raise ToolFaultError("not_found", str(error), hint=error.advice) from None
    tools = found.tools_of([skill])
    listed = "\n".join(_line(tool) for tool in tools)
    parts = [marked("skill_content", instructions, name=skill.name)]
    parts += [f"<skill_tools>\n{listed}\n</skill_tools>"] if tools else []
    if found.runs_commands:
        said = "commands of these instructions: run_for_skill, as they are written"
        parts.append(element("skill_commands", said, skill=skill.name))
    return ToolAnswer(
        text="\n".join(parts),
        structured={
            "skill": skill.name,
            "instructions": instructions,
            "tools": [tool.name for tool in tools],
        },
    )


def _line(tool: Tool) -> str:
    missing = {} if tool.ready else {"not_ready": ", ".join(tool.missing)}
    return element("tool", tool.description, name=tool.name, **missing)


_LISTED = "`activate_skill` lists the files of a skill"


class OutsideSkillError(CallDeniedError):
    """A path leads out of the skill, or to a hidden file, which often holds secrets."""

    code = "outside_skill"

    def __init__(self, path: str, skill: str, reason: str) -> None:
        self.path = path
        self.skill = skill
        super().__init__(
            f"{path!r} is not shown: {reason} {skill!r}",
            hint="name a file that `activate_skill` lists, relative to the folder of the skill",
        )


def read_one(call: ToolCall, found: "DisclosedSkills") -> ToolAnswer:
    """Return the requested lines, in tags that name the skill and the path."""
    name, path = call.arguments["skill"], call.arguments["path"]
    files = WorkspaceFiles(Path(os.path.realpath(offered_skill(found.skills, name).home)))
    try:
        with files.reading(path) as opened:
            if any(part.startswith(".") for part in opened.path.split("/")):
                raise OutsideSkillError(path, name, "it is a hidden file of the skill")
            answer = show(call, opened)
            real = opened.path
    except OutsideWorkspaceError:
        raise OutsideSkillError(path, name, "it is outside the skill") from None
    except ToolFaultError as fault:
        meant = fault.hint if fault.hint.startswith("did you mean") else _LISTED
        raise ToolFaultError(fault.kind, str(fault), hint=meant) from None
    return replace(answer, text=marked("skill_file", answer.text, skill=name, path=real))


# Scripts without spaces between words: each character is a word.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ENDINGS = ("ing", "ed", "es", "s", "e")  # parsing, parsed, parses, parse
_SHORTEST_STEM = 3
_SHORTEST_PREFIX = 3
_PREFIX_COUNTS = 0.5  # a match of a prefix counts this much, of a whole word 1

# The usual constants of BM25, k1 and b: how soon repetition stops to count, how much length does.
_SATURATION = 1.2
_LENGTH = 0.75


def words_of(text: str) -> list[str]:
    """Return the words of a text or a name, without the commonest endings."""
    return [_stem(word) for word in _WORD.findall(_HUMP.sub(" ", text).lower())]


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            return word.removesuffix(ending)
    return word


class Ranking:
    """Texts to be searched. Each is a mapping from its parts to the weight of a word in them."""

    def __init__(self, texts: Sequence[Mapping[str, float]]) -> None:
        counts = [_weighted(text) for text in texts]
        lengths = [sum(each.values()) for each in counts]
        average = (sum(lengths) / len(lengths) if lengths else 0.0) or 1.0
        self._fading = [1 - _LENGTH + _LENGTH * length / average for length in lengths]
        self._places: dict[str, dict[int, float]] = {}
        for place, words in enumerate(counts):
            for word, weight in words.items():
                self._places.setdefault(word, {})[place] = weight

    def best(self, query: str) -> list[int]:
        """Return the indexes of the texts that match the query, best first."""
        scores: dict[int, float] = {}
        for word in dict.fromkeys(words_of(query)):
            for place, score in self._scores(word).items():
                scores[place] = scores.get(place, 0.0) + score
        return sorted(scores, key=lambda place: (-scores[place], place))

    def _scores(self, word: str) -> dict[int, float]:
        found: dict[int, float] = {}
        for known, share in self._alike(word):
            places = self._places[known]
            rarity = math.log(1 + (len(self._fading) - len(places) + 0.5) / (len(places) + 0.5))
            for place, weight in places.items():
                damped = weight / (weight + _SATURATION * self._fading[place])
                found[place] = max(found.get(place, 0.0), share * rarity * damped)
        return found

    def _alike(self, word: str) -> Iterable[tuple[str, float]]:
        if word in self._places:
            yield word, 1.0
        if len(word) >= _SHORTEST_PREFIX:
            for known in self._places:
                if known != word and known.startswith(word):
                    yield known, _PREFIX_COUNTS


def _weighted(text: Mapping[str, float]) -> dict[str, float]:
    found: dict[str, float] = {}
    for part, weight in text.items():
        for word in words_of(part):
            found[word] = found.get(word, 0.0) + weight
    return found


_NOTHING = "[nothing was found; try other words]"


def search(call: ToolCall, found: "DisclosedSkills") -> ToolAnswer:
    """Return the skills and tools that match the query, best first."""
    skills = [skill for skill in found.skills.values() if is_offered(skill)]
    things: list[Skill | Tool] = [*skills, *found.tools_of(skills)]
    ranking = Ranking([_searched(thing, found.skills) for thing in things])
    best = [things[place] for place in ranking.best(call.arguments["query"])]
    shown = best[: call.arguments.get("limit", 8)]
    notes = [f"[{len(shown):,} of {len(best):,}]"] if len(best) > len(shown) else []
    rows = [_found_line(thing) for thing in shown] or [_NOTHING]
    return ToolAnswer(
        text="\n".join([*rows, *notes]),
        structured={
            "skills": [each.name for each in shown if isinstance(each, Skill)],
            "tools": [_facts(each) for each in shown if isinstance(each, Tool)],
            "total": len(best),
        },
        truncated=len(best) > len(shown),
    )


def _searched(thing: Skill | Tool, skills: "Mapping[str, Skill]") -> dict[str, float]:
    if isinstance(thing, Skill):
        return {thing.name: 3.0, thing.description: 1.0}
    takes = " ".join(thing.input_schema.get("properties", {}))
    parts = (
        (thing.id, 3.0),
        (thing.description, 1.0),
        (takes, 0.5),
        (skills[thing.skill].description, 0.3),
    )
    return dict(reversed(parts))  # reversed: of two equal texts the weight of the first counts


def _found_line(thing: Skill | Tool) -> str:
    if isinstance(thing, Skill):
        return element("skill", thing.description, name=thing.name)
    takes = ", ".join(model_schema(thing.input_schema).get("properties", {}))
    missing = {} if thing.ready else {"not_ready": ", ".join(thing.missing)}
    return element(
        "tool", thing.description, name=thing.name, skill=thing.skill, takes=takes, **missing
    )


def _facts(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "id": tool.id,
        "skill": tool.skill,
        "description": tool.description,
        "input_schema": model_schema(tool.input_schema),
        "ready": tool.ready,
        "missing": list(tool.missing),
    }


class DisclosedSkills(Protocol):
    """The skills of one discovery by name; their tools are read on demand."""

    skills: dict[str, Skill]

    @property
    def runs_commands(self) -> bool: ...
    def tools_of(self, skills: Iterable[Skill]) -> list[Tool]: ...


def disclosure_tools(
    skills: Mapping[str, Skill], served: Callable[[], DisclosedSkills]
) -> list[Tool]:
    """Return the three tools, whose parameters list the skills by name; [] without skills.

    `served` returns the skills at the time of a call.
    """
    names = [name for name, skill in skills.items() if is_offered(skill)]
    if not names:
        return []
    disclosure = Disclosure(served)
    definitions = (activate_skill(names), read_skill_file(names), search_tools())
    return [each.tool(disclosure) for each in definitions]


class Disclosure(Shared):
    """Answers for the tools."""

    def __init__(self, served: Callable[[], DisclosedSkills]) -> None:
        self._served = served

    def answer(self, call: "ToolCall", _: object) -> "ToolAnswer":
        """Answer a call of one of the three tools."""
        answers: Mapping[str, Callable[[ToolCall, DisclosedSkills], ToolAnswer]] = {
            "activate_skill": activate_one,
            "read_skill_file": read_one,
            "search_tools": search,
        }
        return answers[call.tool.id](call, self._served())
