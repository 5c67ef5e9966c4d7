"""Programs that are fetched: who vouches for them, for how long, and what happens without."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillpouch import Policy, SkillManager
from skillpouch.environment import programs_directory, state_directory
from skillpouch.errors import CallDeniedError
from skillpouch.journal.reading import JournalReader, Query
from skillpouch.needs import Need
from skillpouch.policy import Answer, Question, Rule
from skillpouch.trust.errors import HashDiffersError, PinDiffersError, SkillChangedError
from skillpouch.trust.grant import pin_of
from skillpouch.trust.grants import Grants
from tests.backends.conftest import Download
from tests.conftest import WriteSkill
from tests.net.http.conftest import LOCAL

pytestmark = pytest.mark.slow

MakeManager = Callable[..., SkillManager]


@pytest.fixture
def manager_of(write_skill: WriteSkill, tmp_path: Path, download: Download) -> MakeManager:
    """A skill `demo` with a tool `x` that is fetched; its host is granted."""
    written: list[Path] = []

    def make(sha256: str = "", **options: Any) -> SkillManager:
        if not written:
            backend = {"type": "binary", "url": {"any": download.url}, "args_template": "${a}"}
            backend |= {"sha256": sha256} if sha256 else {}
            schema = {"type": "object", "properties": {"a": {"type": "string"}}}
            tool = {"name": "x", "description": "d", "backend": backend, "parameters": schema}
            front = f"name: demo\ndescription: d\ntools: {json.dumps([tool])}\n"
            written.append(write_skill(front=front))
            (tmp_path / "workspace").mkdir()
        options = {"policy": LOCAL} | options
        return SkillManager(
            written[0].parent, workspace=tmp_path / "workspace", cache=False, **options
        )

    return make


class Asked(list[Question]):
    """Says yes to everything, or what it is told to, and keeps what it was asked."""

    def __init__(self, reply: bool | Answer = True) -> None:
        self.reply = reply

    def __call__(self, question: Question) -> bool | Answer:
        self.append(question)
        return self.reply


def with_rule(rule: Rule) -> Policy:
    return Policy(mode="trusting", rules=[*LOCAL.rules, rule])


def programs() -> list[Path]:
    root = programs_directory()
    return sorted(root.glob("*/program")) if root else []


def test_a_fetched_binary_runs_confined_with_its_words(
    download: Download, manager_of: MakeManager
) -> None:
    manager = manager_of(download.digest)

    assert manager.call("x", {"a": "x y"}).stdout == "[x y]"
    assert manager.call("x", {"a": "z"}).stdout == "[z]"
    assert download.asked == ["/tool"]


def test_another_program_than_the_declared_one_is_not_run(
    download: Download, manager_of: MakeManager
) -> None:
    with pytest.raises(HashDiffersError) as caught:
        manager_of("0" * 64).call("x", {})

    assert (caught.value.expected, caught.value.found) == ("0" * 64, download.digest)
    assert programs() == []


@pytest.mark.promise("get-6")
def test_a_program_without_a_hash_is_pinned_by_the_first_yes(
    download: Download, manager_of: MakeManager
) -> None:
    asked = Asked()

    first = manager_of(approver=asked).call("x", {"a": "1"})
    later = manager_of().call("x", {"a": "2"})

    assert (first.stdout, later.stdout) == ("[1]", "[2]")
    pin = pin_of(download.url, download.digest)
    [question] = asked
    assert question.runs == (
        f"a program of {len(download.body)} bytes from {download.host}, sha256 {download.digest}"
    )
    assert (question.tool, question.arguments) == ("demo.x", {"a": "1"})
    assert question.needs == (Need(kind="program", value=pin),)
    [grant] = Grants().list()
    assert (grant.skill, grant.programs) == ("demo", (pin,))


@pytest.mark.promise("get-6")
def test_without_anybody_to_ask_the_denial_names_the_command_that_vouches(
    download: Download, manager_of: MakeManager
) -> None:
    manager = manager_of()
    with pytest.raises(CallDeniedError) as caught:
        manager.call("x", {"a": "1"})

    assert caught.value.reasons[0] == (
        f"{len(download.body)} bytes came from {download.host}, and no hash confirms that they are "
        "the right ones"
    )
    command = f"skillpouch trust demo --program '{download.url}#sha256={download.digest}'"
    assert command in caught.value.hint
    assert programs() == []
    root = str(manager.get_skill("demo").home.parent)
    _run(*command.replace("'", "").split()[1:], "--yes", "--root", root)
    assert manager.call("x", {"a": "1"}).stdout == "[1]"


def _run(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "skillpouch", *words], check=True, capture_output=True)


@pytest.mark.promise("get-6")
def test_a_no_runs_nothing_and_pins_nothing(download: Download, manager_of: MakeManager) -> None:
    asked = Asked(reply=False)

    with pytest.raises(CallDeniedError, match="the approver said no"):
        manager_of(approver=asked).call("x", {})

    assert (len(asked), programs(), Grants().list()) == (1, [], [])
    assert len(download.asked) == 1


@pytest.mark.promise("get-6")
def test_a_pinned_program_that_changes_at_its_source_is_refused_and_nobody_is_asked(
    download: Download, manager_of: MakeManager
) -> None:
    asked = Asked()
    manager = manager_of(approver=asked)
    manager.call("x", {"a": "1"})
    old = download.digest
    programs()[0].unlink()
    download.body = b"#!/bin/sh\necho evil\n"

    with pytest.raises(PinDiffersError) as caught:
        manager.call("x", {"a": "1"})

    assert (caught.value.expected, caught.value.found) == (old, download.digest)
    assert caught.value.command == (
        f"skillpouch trust demo --program '{download.url}#sha256={download.digest}'"
    )
    assert (len(asked), programs()) == (1, [])


@pytest.mark.promise("get-6")
def test_a_changed_byte_of_the_skill_ends_the_pin(
    download: Download, manager_of: MakeManager
) -> None:
    asked = Asked()
    manager = manager_of(approver=asked)
    manager.call("x", {"a": "1"})
    (manager.get_skill("demo").home / "notes.md").write_text("changed")

    manager.call("x", {"a": "1"})

    assert len(asked) == 2
    assert download.asked == ["/tool", "/tool"]


def test_a_skill_that_changes_while_somebody_is_asked_is_not_run(manager_of: MakeManager) -> None:
    def change(_: Question) -> bool:
        (manager.get_skill("demo").home / "notes.md").write_text("changed")
        return True

    manager = manager_of(approver=change)

    with pytest.raises(SkillChangedError):
        manager.call("x", {})
    assert (programs(), Grants().list()) == ([], [])


def test_a_rule_can_vouch_or_forbid(download: Download, manager_of: MakeManager) -> None:
    asked = Asked()
    deny = Rule(verdict="deny", needs=["program"])
    allow = Rule(verdict="allow", needs=[f"program:https://{download.host}/*"], path="/")

    with pytest.raises(CallDeniedError, match="denies it"):
        manager_of(policy=with_rule(deny), approver=asked).call("x", {})
    result = manager_of(policy=with_rule(allow), approver=asked).call("x", {"a": "1"})

    assert (result.stdout, asked) == ("[1]", [])
    [grant] = Grants().list()
    assert (grant.programs, grant.by) == ((pin_of(download.url, download.digest),), "policy")


def test_calls_at_once_ask_one_after_the_other_and_one_yes_is_enough(
    manager_of: MakeManager,
) -> None:
    asked = Asked()
    manager = manager_of(approver=asked)

    async def both() -> list[str]:
        calls = (manager.acall("x", {"a": str(number)}) for number in range(3))
        return [result.stdout for result in await asyncio.gather(*calls)]

    assert asyncio.run(both()) == ["[0]", "[1]", "[2]"]
    assert len(asked) == 1
    assert len(programs()) == 1


def test_another_content_that_was_pinned_meanwhile_is_not_asked_away(
    download: Download, manager_of: MakeManager
) -> None:
    other = pin_of(download.url, "0" * 64)

    def pin_another(question: Question) -> bool:
        # Somebody else answered first: the same address, another content.
        need = Need(kind="program", value=other)
        Grants().grant(manager.get_skill("demo"), [need], by="somebody else")
        return asked(question) is True

    asked = Asked(reply=False)
    manager = manager_of(approver=pin_another)
    with pytest.raises(CallDeniedError):
        manager.call("x", {})

    with pytest.raises(PinDiffersError):
        manager.call("x", {})

    assert (len(asked), programs()) == (1, [])


def test_a_denied_program_is_on_record(manager_of: MakeManager) -> None:
    with pytest.raises(CallDeniedError):
        manager_of().call("x", {})

    state = state_directory()
    assert state is not None
    with JournalReader(state) as journal:
        [entry] = journal.newest(Query(), 10)
    assert (entry.tool, entry.outcome) == ("demo.x", "denied")
