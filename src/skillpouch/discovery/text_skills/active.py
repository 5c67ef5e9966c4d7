"""The skills that somebody uses as text: their folders are kept for as long as they are used."""

import threading
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skillpouch.discovery.text_skills.folders import (
    Files,
    Forget,
    Kept,
    hold,
    is_text_home,
    keep,
    let_go,
)
from skillpouch.problems import Problem
from skillpouch.registry.overlay import AddedTools
from skillpouch.tools import Tool

if TYPE_CHECKING:
    from skillpouch.discovery.text_skills.reading import TextSkill

_MOST_TRIES = 8  # to find a tool whose skill is changed all the time


@dataclass(frozen=True, slots=True)
class _Active:
    kept: Kept
    text: "TextSkill"


class ActiveSkills:
    """Skills by name, each of them adding its tools to those of one executor.

    `forget` hears the home of a skill that nobody in this process uses any more.
    """

    def __init__(self, added: AddedTools, forget: Forget = lambda _: None) -> None:
        self.added = added
        self._forget = forget
        self._active: dict[str, _Active] = {}
        self._changing = threading.RLock()
        # Not a method: what lets the folders go must not keep their user alive.
        self._finalizer = weakref.finalize(self, _let_all_go, self._active, forget)

    def use(self, name: str, text: str) -> list[str]:
        """Add the tools of a SKILL.md under a name; return their wire names.

        The same text again changes nothing; another text takes the place of the earlier one.
        """
        # Here and below, so that an executor without texts does not load what reads them.
        from skillpouch.discovery.text_skills.reading import name_in

        name_in(text, used_as=name)  # a text that is no SKILL.md raises, whatever it is called
        return self.use_files(name, {"SKILL.md": text})

    def use_files(self, name: str, files: Files) -> list[str]:
        """Do what `use` does with all the files of a skill."""
        from skillpouch.discovery.text_skills.reading import check_name, read_text_skill

        name = check_name(name)
        kept = keep(files, name)
        try:
            text = read_text_skill(kept.home, name)
        except BaseException:
            let_go(kept)
            raise
        with self._changing:
            earlier = self._active.get(name)
            if earlier is not None and earlier.kept == kept:
                let_go(kept)
                return [tool.name for tool in self.added.tools_of(name)]
            self._active[name] = _Active(kept, text)
            names = self.added.put(name, text.read.tools)
        self._end(earlier)
        return names

    def remove(self, name: str) -> list[str]:
        """Take a skill and its tools out; return the names that are gone."""
        with self._changing:
            active = self._active.pop(name, None)
            names = self.added.drop(name) if active is not None else []
        self._end(active)
        return names

    def remove_tools(self, names: Iterable[str]) -> list[str]:
        """Take single tools out, by any of their names; return the names they had."""
        removed = []
        for name in names:
            with self._changing:
                tool = self.added.owner_of(name)
                if tool is None or tool.skill not in self._active:
                    continue
                removed.append(tool.name)
                if not self.added.drop_tool(tool):
                    self.remove(tool.skill)
        return removed

    def hold(self, name: str) -> tuple[Tool, Kept | None]:
        """Find a tool; what it runs stays where it is until `let_go` is told that it is over."""
        tool = self.added.get(name)
        if not tool.home:
            return tool, None
        for _ in range(_MOST_TRIES):
            kept = hold(tool.home) if is_text_home(tool.home) else None
            if kept is not None or not is_text_home(tool.home):
                return tool, kept
            # Removed since it was found: the name now means another tool, or none.
            tool = self.added.get(name)
        return tool, None

    def let_go(self, kept: Kept | None) -> None:
        """Hear that a call of what `hold` returned is over."""
        if kept is not None:
            let_go(kept, self._forget)

    def key_of(self, name: str) -> str:
        """Return what changes when the text of a skill does; "" when it is not used."""
        active = self._active.get(name)
        return active.kept.key if active is not None else ""

    def names(self) -> list[str]:
        """Return the skills in the order in which they were first used."""
        return list(self._active)

    def problems(self, name: str | None = None) -> list[Problem]:
        """Return what was noticed about the skills that are used, or about one of them."""
        active = dict(self._active)
        chosen = active.values() if name is None else filter(None, [active.get(name)])
        return [problem for each in chosen for problem in each.text.problems]

    def close(self) -> None:
        """Take everything out."""
        for name in self.names():
            self.remove(name)

    def _end(self, active: _Active | None) -> None:
        if active is not None:
            let_go(active.kept, self._forget)


def _let_all_go(active: dict[str, _Active], forget: Forget) -> None:
    while active:
        let_go(active.popitem()[1].kept, forget)
