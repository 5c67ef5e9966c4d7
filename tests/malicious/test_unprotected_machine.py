"""A machine that cannot confine: an error first, then what somebody consented to, and no more."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skillpouch.errors import CallDeniedError, SandboxUnavailableError
from skillpouch.execution.engine import Engine
from skillpouch.execution.machine import Machine
from skillpouch.execution.zygote_client import probe
from skillpouch.journal.reading import JournalReader, Query
from skillpouch.limits import Limits
from skillpouch.policy import Policy, Rule
from skillpouch.runtime.loop_thread import run_blocking
from skillpouch.trust.grants import Grants
from tests.malicious.conftest import MakeManager

pytestmark = pytest.mark.slow

RUN = {"scripts/run.sh": "echo ran; touch ran\n"}


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All calls go to an engine of a machine that has no protection at all."""
    engine = Engine(machine=Machine())
    monkeypatch.setattr("skillpouch.execution.engine._engine", engine)
    yield
    run_blocking(engine.close())


@pytest.mark.promise("fs-4")
def test_nothing_runs_until_somebody_consents_and_then_the_result_says_none(
    manager_of: MakeManager, workspace: Path, state: Path
) -> None:
    manager = manager_of(RUN)

    with pytest.raises(SandboxUnavailableError) as caught:
        manager.call("bad.run")
    assert "skillpouch trust --unconfined" in caught.value.hint
    assert not (workspace / "ran").exists()
    Grants().give_consent(by="ada")
    result = manager.call("bad.run")

    assert (result.outcome, result.protections["fs"], result.protections["net"]) == (
        "ok",
        "none",
        "none",
    )
    with JournalReader(state) as reader:
        outcomes = [(e.outcome, e.protections.get("fs")) for e in reader.after(Query())]
    assert outcomes == [("not_started", None), ("ok", "none")]


def test_a_consent_that_is_withdrawn_is_gone(manager_of: MakeManager) -> None:
    manager = manager_of(RUN)
    Grants().give_consent()
    assert manager.call("bad.run").outcome == "ok"

    Grants().withdraw_consent()

    with pytest.raises(SandboxUnavailableError):
        manager.call("bad.run")


@pytest.mark.promise("call-11")
def test_a_rule_against_running_unconfined_is_stronger_than_the_consent(
    manager_of: MakeManager, workspace: Path
) -> None:
    rule = Rule(verdict="deny", needs=["unconfined"], name="never bare")
    manager = manager_of(RUN, policy=Policy(rules=[rule]))
    Grants().give_consent()

    with pytest.raises(CallDeniedError, match="never bare"):
        manager.call("bad.run")

    assert not (workspace / "ran").exists()


@pytest.mark.promise("call-11")
@pytest.mark.parametrize("required", [{"policy": Policy(require={"fs"})}, {"require": ["net"]}])
def test_a_consent_does_not_give_up_what_is_required(
    required: Any, manager_of: MakeManager, workspace: Path
) -> None:
    manager = manager_of(RUN, **required)
    Grants().give_consent()

    with pytest.raises(SandboxUnavailableError):
        manager.call("bad.run")

    assert not (workspace / "ran").exists()


@pytest.mark.promise("call-11")
def test_a_consent_is_not_for_a_machine_that_could_but_failed(
    manager_of: MakeManager, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine()  # which finds out what this machine can do
    monkeypatch.setattr("skillpouch.execution.engine._engine", engine)
    manager = manager_of(RUN, limits=Limits(processes=10**9))  # more than a kernel has numbers for
    Grants().give_consent()

    with pytest.raises(SandboxUnavailableError) as caught:
        manager.call("bad.run")

    run_blocking(engine.close())
    assert caught.value.code == "sandbox_failed"
    assert "unconfined" not in caught.value.hint
    assert not (workspace / "ran").exists()


@pytest.mark.promise("fs-1")
def test_a_handler_runs_and_is_held_where_there_are_no_namespaces(
    manager_of: MakeManager, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = replace(probe(), namespaces=False, user_namespace=False, own_proc=False)
    engine = Engine(machine=replace(machine, pid_limit=False))
    monkeypatch.setattr("skillpouch.execution.engine._engine", engine)
    (workspace.parent / "outside").write_text("s3cret")
    handler = "def handler(args):\n    return open(args['path']).read()\n"
    (workspace / "inside").write_text("fine")
    manager = manager_of({"scripts/look.py": handler})

    fine = manager.call("bad.look", {"path": str(workspace / "inside")})
    refused = manager.call("bad.look", {"path": str(workspace.parent / "outside")})

    run_blocking(engine.close())
    assert (fine.outcome, fine.structured) == ("ok", "fine")
    assert refused.is_error
    assert "s3cret" not in refused.content
