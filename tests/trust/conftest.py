from collections.abc import Callable
from pathlib import Path

import pytest

from skillpouch import Skill, SkillManager
from skillpouch.environment import state_directory
from skillpouch.needs import Need
from skillpouch.trust.grants import Grants

MakeSkill = Callable[..., Skill]

SECRET = Need(kind="secret", value="API_KEY")
HOST = Need(kind="host", value="api.example.com")


@pytest.fixture
def make_skill(write_skill: Callable[..., Path]) -> MakeSkill:
    """Write a skill and find it."""

    def make(name: str = "demo", *words: str, **parts: object) -> Skill:
        home = write_skill(name, *words, **parts)
        return SkillManager(home.parent, cache=False).get_skill(name)

    return make


@pytest.fixture
def grants() -> Grants:
    return Grants()


@pytest.fixture
def folder() -> Path:
    """Where grants are kept."""
    state = state_directory()
    assert state is not None
    return state / "grants"
