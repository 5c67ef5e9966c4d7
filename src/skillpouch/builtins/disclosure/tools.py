"""The tools by which an agent finds its way among the skills of one discovery."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from skillpouch.builtins.disclosure.definitions import activate_skill, read_skill_file, search_tools
from skillpouch.builtins.disclosure.offered import is_offered
from skillpouch.runtime.memoize import Shared
from skillpouch.skills import Skill
from skillpouch.tools import Tool

if TYPE_CHECKING:
    from skillpouch.builtins.workspace.answer import Answer
    from skillpouch.calls import ToolCall


class Skills(Protocol):
    """The skills of one discovery, by name, and their tools when somebody asks."""

    skills: dict[str, Skill]

    def tools_of(self, skills: Iterable[Skill]) -> list[Tool]: ...


def disclosure_tools(skills: Mapping[str, Skill], served: Callable[[], Skills]) -> list[Tool]:
    """Return the tools, with the names of the skills in what they take; none without skills.

    Calls are answered from what is `served` then.
    """
    names = [name for name, skill in skills.items() if is_offered(skill)]
    if not names:
        return []
    disclosure = Disclosure(served)
    definitions = (activate_skill(names), read_skill_file(names), search_tools())
    return [each.tool(disclosure) for each in definitions]


class Disclosure(Shared):
    """Answers for the tools."""

    def __init__(self, served: Callable[[], Skills]) -> None:
        self._served = served

    def answer(self, call: "ToolCall", _: object) -> "Answer":
        """Do what a call asks for."""
        # Here, so that finding skills does not load what answers about them.
        from skillpouch.builtins.disclosure.activating import activate_one
        from skillpouch.builtins.disclosure.reading import read_one
        from skillpouch.builtins.disclosure.searching import search

        answers: Mapping[str, Callable[[ToolCall, Skills], Answer]] = {
            "activate_skill": activate_one,
            "read_skill_file": read_one,
            "search_tools": search,
        }
        return answers[call.tool.id](call, self._served())
