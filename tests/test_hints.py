"""Hints are commands that work as they are: below the roots in which the skills were found."""

import re
import shlex
from collections.abc import Callable
from typing import Any

import pytest

from skillpouch import SkillManager, SkillpouchError
from skillpouch.errors import (
    CommandStartError,
    NotRunnableError,
    SandboxUnavailableError,
    SkillNotFoundError,
    UnknownToolError,
)
from skillpouch.integrations.model_results import refusal_text
from skillpouch.needs import Need
from skillpouch.net.hosts import Host
from skillpouch.net.http.guard import InsideAddressError
from skillpouch.servers.faults import said
from skillpouch.trust.errors import SkillChangedError, UngrantedError
from tests.conftest import WriteSkill

NEED = Need(kind="packages", value="requests==2.32.0")
ABOUT_SKILLS = [
    SkillNotFoundError("x", known=["a"]),
    UnknownToolError("x", known=["a.b"]),
    NotRunnableError("a.b", "stub", "my skill"),
    SkillChangedError("my skill"),
    UngrantedError("my skill", [NEED]),
    UngrantedError("my skill", [NEED], roots=["/the roots"]),
    InsideAddressError(Host("a.example", None, is_address=False), "127.0.0.1", skill="demo"),
    CommandStartError("a.b", "no", hint="run `skillpouch check`"),
]


@pytest.mark.parametrize("error", ABOUT_SKILLS, ids=lambda error: type(error).__name__)
def test_each_command_about_a_skill_names_each_root_once(error: SkillpouchError) -> None:
    error.look_below(["/the roots"])
    error.look_below(["/the roots"])

    commands = re.findall(r"`(skillpouch [^`]*)`", error.hint)
    assert commands
    for command in commands:
        assert shlex.split(command)[-2:] == ["--root", "/the roots"]
        assert command.count("--root") == 1


@pytest.mark.parametrize("error", ABOUT_SKILLS, ids=lambda error: type(error).__name__)
def test_a_model_is_told_no_command_of_skillpouch_and_a_person_is(error: SkillpouchError) -> None:
    """By these two functions every integration, and the MCP server, says what went wrong."""
    assert "skillpouch " not in refusal_text(error)
    assert "skillpouch " not in said(error)
    assert "skillpouch " in error.hint


def test_consent_for_a_machine_names_no_root() -> None:
    error = SandboxUnavailableError(("fs",))
    before = error.hint

    error.look_below(["/the roots"])

    assert error.hint == before


ASKED: dict[str, Callable[[SkillManager], Any]] = {
    "call": lambda manager: manager.call("quite.wrong"),
    "get_tool": lambda manager: manager.get_tool("quite.wrong"),
    "get_skill": lambda manager: manager.get_skill("quite-wrong"),
    "load_skill": lambda manager: manager.load_skill("quite-wrong"),
    "get_skill_tools": lambda manager: manager.get_skill_tools("quite-wrong"),
    "a stub": lambda manager: manager.call("demo.x"),
}


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_what_a_manager_advises_looks_where_it_does(
    write_skill: WriteSkill, ask: Callable[[SkillManager], Any]
) -> None:
    front = "name: demo\ndescription: d\ntools: [{name: x, description: d}]\n"
    root = write_skill(front=front).parent

    with pytest.raises(SkillpouchError) as raised:
        ask(SkillManager(root, cache=False))

    assert f"--root {shlex.quote(str(root))}`" in raised.value.hint


@pytest.mark.parametrize("builtins", [False, True])
def test_the_number_of_tools_is_that_of_the_list(write_skill: WriteSkill, builtins: bool) -> None:
    files = {"scripts/a.py": "print(1)\n", "scripts/b.py": "print(1)\n"}
    root = write_skill(files=files).parent

    with pytest.raises(UnknownToolError) as raised:
        SkillManager(root, cache=False, builtins=builtins).call("quite.wrong")

    assert f"list --root {root}` shows all 2 tools" in raised.value.hint
