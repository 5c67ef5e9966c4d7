"""Our sandbox, none at all, and one of another package keep the rules; who does not is told."""

import importlib
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skillpouch.execution.command import Command
from skillpouch.execution.sandboxes import KernelSandbox, NoSandbox
from skillpouch.execution.zygote_client import probe
from skillpouch.testing import ContractError, check_sandbox
from tests.contracts.conftest import needs_unshare

pytestmark = [pytest.mark.slow, pytest.mark.escape]
BOTH = {"fs": "said", "net": "said"}


def test_our_own_sandbox_keeps_the_rules() -> None:
    check_sandbox(KernelSandbox(machine=probe()))


def test_what_is_left_without_a_sandbox_keeps_the_rules() -> None:
    check_sandbox(NoSandbox(machine=probe()))


@needs_unshare
def test_the_sandbox_of_another_package_keeps_the_rules(example: Path) -> None:
    del example

    check_sandbox(importlib.import_module("skillpouch_example.sandbox").UnshareSandbox())


class Bad:
    """Says that it protects something, and puts words in front of the command or changes it."""

    def __init__(self, *words: str, says: Mapping[str, str] | None = None, **changes: Any) -> None:
        self.words = words
        self.says = {**BOTH, **(says or {})}
        self.changes = changes

    def confine(self, command: Command) -> Command:
        argv = (*self.words, *command.argv)
        return replace(command, argv=argv, protections=self.says, **self.changes)


class Moody(Bad):
    """Gives another command each time, and starts a process for it."""

    times = 0

    def confine(self, command: Command) -> Command:
        self.times += 1
        subprocess.run(["true"], check=True)
        return replace(super().confine(command), env={**command.env, "TIMES": str(self.times)})


EVERYTHING = {"signals": "said", "processes": "said", "syscalls": "said"}


def broken(provider: Bad) -> list[str]:
    with pytest.raises(ContractError) as told:
        check_sandbox(provider)
    return told.value.broken


def test_a_sandbox_that_only_says_so_is_told_everything_that_got_through() -> None:
    assert broken(Bad(says=EVERYTHING)) == [
        "fs: a file that was not granted is not read",
        "fs: outside the workspace nothing is written: ['skill', 'elsewhere'] was",
        "net: a port of this machine is not reached",
        "signals: no process outside is killed",
        "signals: of a process outside no variable is read",
        "processes: no more run than 20: there were 40",
        "syscalls: a filter of system calls is active",
    ]


def test_a_sandbox_that_is_not_pure_is_told_so() -> None:
    rules = broken(Moody())

    assert "`confine` gives the same for the same command" in rules
    assert [each for each in rules if each.startswith("`confine` starts no process: it called")]


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (("/bin/sh", "-c", '"$@"; exit 0', "sh"), "an exit code is passed on: 3 became 0"),
        (("/bin/sh", "-c", 'exec "$@" </dev/null', "sh"), "standard input and output pass"),
        (("/bin/sh", "-c", 'exec "$@" 2>/dev/null', "sh"), "standard error passes unchanged"),
        (("/bin/sh", "-c", 'cd /; exec "$@"', "sh"), "a program starts in `cwd`"),
        (("/bin/sh", "-c", 'exec "$@" 3>&-', "sh"), "SKILLPOUCH_ANSWER can be written"),
        (("/bin/sh", "-c", 'unset GIVEN; exec "$@"', "sh"), "every variable of `env` has"),
        (("/bin/sh", "-c", "exit 9", "sh"), "a Python program of the machine runs in it"),
        (("/nowhere/to/be/found",), "a program that may run is started: cannot start"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_sandbox_that_changes_what_programs_do_is_told_so(
    words: tuple[str, ...], rule: str
) -> None:
    assert [each for each in broken(Bad(*words)) if rule in each]


def test_a_sandbox_that_gives_variables_of_the_host_is_told_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OF_THE_HOST", "1")
    env = {"PATH": "/usr/bin:/bin", "GIVEN": "to it, = and ü", "OF_THE_HOST": "1"}

    assert [each for each in broken(Bad(env=env)) if "['OF_THE_HOST'] are" in each]
