"""Hundreds of edits during thousands of calls: never a wrong version, never a lost tool."""

import asyncio
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skillpouch import SkillManager
from skillpouch.discovery.watching.listening import Changes
from tests.discovery.watching import skills

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from skillpouch.problems import Problem

AT_ONCE = 8
NAMES = ("ada", "bob", "cyd", "dee")
SECONDS = 60.0


class Storm:
    """Edits skills in all ways on one thread, and knows which versions are right at any time."""

    def __init__(self, root: Path, manager: SkillManager) -> None:
        self._root = root
        self._manager = manager
        self._chance = random.Random(7)
        self.written = dict.fromkeys(NAMES, 1)  # the newest that may be served
        self.told = dict.fromkeys(NAMES, 1)  # the oldest that may still be
        self.heard = threading.Condition()
        self.problems: tuple[Problem, ...] = ()
        self.ever_held = False

    def on_change(self, changes: Changes) -> None:
        with self.heard:
            for name in changes.changed.skills:
                description = self._manager.get_tool(f"{name}.say").description
                self.told[name] = int(description.removeprefix("Say version ").rstrip("."))
            self.problems = changes.problems
            self.ever_held |= any(each.code == "half-written" for each in changes.problems)
            self.heard.notify_all()

    def rage(self, edits: int) -> None:
        for number in range(edits):
            name = self._chance.choice(NAMES)
            self._edit(name)
            if number % 25 == 0:
                self._wait_for(lambda name=name: self.told[name] == self.written[name])  # type: ignore[misc]

    def _edit(self, name: str) -> None:
        home = self._root / name
        if self._chance.random() < 0.3:
            self._spoil(home)
        version = self.written[name] + 1
        self.written[name] = version
        save = self._chance.choice(skills.SAVES)
        save(home / "scripts/say.py", skills.script(version))

    def _spoil(self, home: Path) -> None:
        """Leave something half-written, sometimes until that is noticed, and mend it."""
        file, text = self._chance.choice(
            [
                (home / "SKILL.md", skills.skill_md(home.name, 1)),
                (home / "scripts/say.py", skills.script(self.written[home.name])),
            ]
        )
        file.write_text(self._chance.choice(["", text[:9], text[: len(text) // 2]]))
        if self._chance.random() < 0.1:
            self._wait_for(lambda: any(each.path.startswith(f"{home}/") for each in self.problems))
        self._chance.choice([skills.in_place, skills.over])(file, text)

    def _wait_for(self, fact: Callable[[], bool]) -> None:
        with self.heard:
            assert self.heard.wait_for(fact, SECONDS), "an edit was not noticed"


@pytest.mark.timeout(600)
# Looking takes longer than being told: as many edits again would only take more time.
@pytest.mark.parametrize(
    ("polling", "edits", "calls_wanted"),
    [
        (True, 50, 200),
        (False, 100, 400),
        pytest.param(True, 125, 500, marks=pytest.mark.exhaustive),
        pytest.param(False, 500, 2_000, marks=pytest.mark.exhaustive),
    ],
    ids=["polling", "events", "polling for long", "events for long"],
)
async def test_edits_during_calls_give_no_wrong_version_and_lose_no_tool(
    tmp_path: Path, polling: bool, edits: int, calls_wanted: int
) -> None:
    root = tmp_path / "skills"
    for name in NAMES:
        skills.write(root / name)
    (tmp_path / "work").mkdir()
    manager = SkillManager(root, workspace=tmp_path / "work", journal=False)
    storm = Storm(root, manager)
    chance = random.Random(8)
    wrong: list[object] = []
    calls = 0

    async def call_until(edited: "asyncio.Future[None]") -> None:
        nonlocal calls
        while calls < calls_wanted or not edited.done():
            calls += 1
            name = chance.choice(NAMES)
            oldest = storm.told[name]
            result = await manager.acall(f"{name}.say")
            said, in_file = result.structured or (0, 0)
            if not (oldest <= said == in_file <= storm.written[name]):
                wrong.append((name, oldest, result, storm.written[name]))

    with manager.watch(storm.on_change, polling=polling, missing_seconds=SECONDS):
        edited = asyncio.ensure_future(asyncio.to_thread(storm.rage, edits))
        await asyncio.gather(*(call_until(edited) for _ in range(AT_ONCE)), edited)
        manager.discover()

    assert wrong == []
    assert storm.told == storm.written
    assert (storm.ever_held, storm.problems) == (True, ())
