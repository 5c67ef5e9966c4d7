"""Whether a call may run, and what it may reach: policy, grants, approvals, secrets."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skillpouch import Policy, SkillManager, tool
from skillpouch.calls import Access, Terms, ToolCall
from skillpouch.errors import (
    CallDeniedError,
    SandboxUnavailableError,
    SkillpouchError,
    SkillUnreadableError,
    ToolRestrictionError,
)
from skillpouch.limits import Limits
from skillpouch.needs import Need, profile_of
from skillpouch.policy import Answer, Condition, Equals, Question, Rule
from skillpouch.policy.authorize import Authorizer, Permit
from skillpouch.policy.conditions import readings
from skillpouch.tools import Binary, InlineScript
from skillpouch.trust.errors import GrantStoreError, SecretUnsetError, SkillChangedError
from skillpouch.trust.grants import Grants
from tests.conftest import WriteSkill

MakeCall = Callable[..., ToolCall]
ECHO = {"scripts/echo.py": "print(1)\n", "scripts/typed.py": "import json, sys\n"}
VALUES = {"K_1": "hunter2hunter2", "K_2": "sesamesesame"}


def vault(_: str | None, name: str) -> str | None:
    return VALUES.get(name)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def call_of(write_skill: WriteSkill, workspace: Path, tmp_path: Path) -> MakeCall:
    """Write a skill and make a call of its tool."""

    def make(front: str = "", sandbox: Any = "on", **facts: Any) -> ToolCall:
        if not (tmp_path / "skills").exists():
            write_skill(front=f"name: demo\ndescription: d\n{front}", files=ECHO)
        found = SkillManager(tmp_path / "skills", cache=False).get_tool("demo.echo")
        terms = Terms(workspace=workspace, sandbox=sandbox)
        usual: dict[str, Any] = {"tool": found, "terms": terms, "limits": Limits()}
        return ToolCall(**{"arguments": {}} | usual | facts)

    return make


def skillpouch_block(**asks: Any) -> str:
    inner = ", ".join(f"{key}: {value}" for key, value in asks.items())
    return f"metadata: {{skillpouch: {{{inner}}}}}\n"


def grant(call: ToolCall, *needs: Need, **options: Any) -> None:
    skill = SkillManager(Path(call.tool.home).parent, cache=False).get_skill("demo")
    Grants().grant(skill, needs, **options)


async def test_a_call_that_needs_nothing_is_given_nothing(call_of: MakeCall) -> None:
    call = call_of()

    permit = await Authorizer(policy=Policy()).permit(call)

    digest = SkillManager(Path(call.tool.home).parent).get_skill("demo").digest
    assert permit == Permit(digest=digest)


async def test_a_grant_gives_everything_that_it_names(call_of: MakeCall, tmp_path: Path) -> None:
    call = call_of()
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
    grant(
        call,
        Need(kind="secret", value="K_1"),
        Need(kind="secret", value="UNSET_AND_NOT_NEEDED"),
        Need(kind="read", value=str(tmp_path / "in")),
        Need(kind="read", value=str(tmp_path / "not there")),
        Need(kind="write", value=str(tmp_path / "out")),
        Need(kind="host", value="api.example"),
        Need(kind="packages", value="quokka==1.0"),
        Need(kind="unconfined"),
    )

    permit = await Authorizer(policy=Policy(), secrets=vault).permit(call)

    assert permit.access == Access(
        secrets={"K_1": "hunter2hunter2"},
        readable=(tmp_path / "in",),
        writable=(tmp_path / "out",),
        hosts=("api.example",),
        packages=("quokka==1.0",),
        unconfined=True,
        absent=(str(tmp_path / "not there"),),
        unset=("UNSET_AND_NOT_NEEDED",),
    )
    assert (permit.decision, permit.approved_by) == ("allowed", "a grant")
    assert permit.redactor.text("hunter2hunter2") == "[redacted K_1]"


@pytest.mark.promise("grant-10")
@pytest.mark.parametrize("value", [None, ""])
async def test_a_needed_secret_without_a_value_is_an_error(
    value: str | None, call_of: MakeCall
) -> None:
    call = call_of(skillpouch_block(secrets="[K_1]"))
    grant(call, Need(kind="secret", value="K_1"))

    with pytest.raises(SecretUnsetError, match="K_1 is granted but not set"):
        await Authorizer(policy=Policy(), secrets=lambda _, __: value).permit(call)


async def test_a_rule_that_gives_a_need_is_named_on_record(call_of: MakeCall) -> None:
    rule = Rule(verdict="allow", tools=["demo.*"], needs=["secret:K_1"], path="/", name="keys")
    call = call_of(skillpouch_block(secrets="[K_1]"))

    permit = await Authorizer(policy=Policy(rules=[rule]), secrets=vault).permit(call)

    assert permit.access.secrets == {"K_1": "hunter2hunter2"}
    assert permit.approved_by == "rule 'keys' allows it"


async def test_redactors_are_made_once_per_set_of_values(call_of: MakeCall) -> None:
    call = call_of()
    grant(call, Need(kind="secret", value="K_1"))
    values = dict(VALUES)
    permits = Authorizer(policy=Policy(), secrets=lambda _, name: values.get(name))

    first, second = [(await permits.permit(call)).redactor for _ in range(2)]
    values["K_1"] = "another one"
    third = (await permits.permit(call)).redactor

    assert first is second
    assert third.text("another one") == "[redacted K_1]"


def test_threads_whose_secrets_change_all_the_time_find_each_their_redactor(
    call_of: MakeCall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skillpouch.secrets.sources._MOST_REDACTORS", 1)
    call = call_of()
    grant(call, Need(kind="secret", value="K_1"))
    local = threading.local()
    permits = Authorizer(policy=Policy(), secrets=lambda _, __: str(local.value))

    def work(number: int) -> set[str]:
        local.value = f"secret value {number}"
        found = [asyncio.run(permits.permit(call)).redactor for _ in range(50)]
        return {redactor.text(local.value) for redactor in found}

    with ThreadPoolExecutor(4) as pool:
        said = list(pool.map(work, range(4)))

    assert said == [{"[redacted K_1]"}] * 4


@pytest.mark.parametrize(("remember", "times"), [("once", 2), ("session", 1), ("always", 1)])
async def test_a_yes_to_a_function_lasts_no_longer_than_the_executor(
    remember: Any, times: int, call_of: MakeCall
) -> None:
    @tool(effects=("destructive",))
    def wipe() -> None: ...

    asked: list[Question] = []

    def approve(question: Question) -> Answer:
        asked.append(question)
        return Answer(yes=True, remember=remember)

    call = replace(call_of(), tool=wipe)
    permits = Authorizer(policy=Policy(), approver=approve)
    decisions = [(await permits.permit(call)).approved_by for _ in range(2)]

    assert decisions == ["the approver", "the approver" if times == 2 else "an earlier approval"]
    assert (len(asked), asked[0].digest, Grants().list()) == (times, "", [])


async def test_always_is_for_the_tool_and_not_for_a_new_need(call_of: MakeCall) -> None:
    answers = [Answer(yes=True, remember="always"), Answer(yes=False, reason="no more")]
    call = call_of(skillpouch_block(secrets="[K_1]"))
    ask_always = Policy(rules=[Rule(verdict="ask", tools=["demo.echo"])])
    permits = Authorizer(policy=ask_always, approver=lambda _: answers.pop(0), secrets=vault)

    first = await permits.permit(call)
    second = await permits.permit(call)
    file = Path(call.tool.home) / "SKILL.md"
    file.write_text(file.read_text().replace("[K_1]", "[K_1, K_2]"))

    assert (first.approved_by, second.approved_by) == ("the approver", "an earlier approval")
    with pytest.raises(CallDeniedError, match="no more"):
        await permits.permit(call)


async def test_a_question_shows_all_that_was_said_without_granted_secrets(
    call_of: MakeCall,
) -> None:
    asked: list[Question] = []

    def refuse(question: Question) -> bool:
        asked.append(question)
        return False

    policy = Policy(rules=[Rule(verdict="ask", reason="look")])
    call = call_of(arguments={"data": "hunter2hunter2"}, stdin=b"sesamesesame hunter2hunter2")
    grant(call, Need(kind="secret", value="K_1"))

    with pytest.raises(CallDeniedError):
        await Authorizer(policy=policy, approver=refuse, secrets=vault).permit(call)

    said = {"data": "[redacted K_1]", "<stdin>": "sesamesesame [redacted K_1]"}
    assert asked[0].arguments == said
    assert asked[0].runs == f"python scripts/echo.py of {call.tool.home}"


TEXTS = [
    ("{}", "allowed"),
    ('{"force": false}', "allowed"),
    ('{"force": true}', "denied"),
    ('{"force": true, "force": false}', "denied"),
    ('{"force": true', "denied"),
    ('{"a":' * 100_000, "denied"),
    ("force", "denied"),
]


@pytest.mark.promise("call-10")
@pytest.mark.parametrize(("text", "decision"), TEXTS, ids=[text[:40] for text, _ in TEXTS])
async def test_a_text_is_judged_as_what_the_script_reads_in_it(
    text: str, decision: str, call_of: MakeCall
) -> None:
    forced = Condition(argument="data.force", test=Equals(True))
    policy = Policy(rules=[Rule(verdict="deny", when=[forced])])

    try:
        found = (await Authorizer(policy=policy).permit(call_of(arguments={"data": text}))).decision
    except CallDeniedError:
        found = "denied"

    assert found == decision


def test_a_text_that_reaches_no_script_as_an_object_stays_one(call_of: MakeCall) -> None:
    call = call_of(arguments={"data": "{}"})
    call = replace(call, tool=replace(call.tool, runs=Binary(path="/bin/cat")))

    assert list(readings(call)) == [{"data": "{}"}]


@pytest.mark.promise("call-10")
@pytest.mark.parametrize(
    ("runs", "schema", "is_judged"),
    [
        (Binary(path="/bin/cat"), {}, True),
        (Binary(path="/bin/cat", args_template="{{n}}"), {}, False),
        (InlineScript(interpreter="sh", text="cat"), {"properties": {"n": {"default": 2}}}, True),
    ],
    ids=["binary", "template", "inline"],
)
def test_input_is_judged_where_it_takes_the_place_of_arguments(
    runs: Any, schema: dict[str, Any], is_judged: bool, call_of: MakeCall
) -> None:
    call = call_of(arguments={"m": 1}, stdin=b'{"n": 3}')
    call = replace(call, tool=replace(call.tool, runs=runs, input_schema=schema))

    found = [dict(each) for each in readings(call)]

    defaults = [{"m": 1, "n": 2}] if schema else []
    assert found == [{"m": 1}, *defaults, *([{"n": 3}] if is_judged else [])]


INPUTS: list[tuple[bytes | None, str]] = [
    (None, "allowed"),
    (b'{"force": false}', "allowed"),
    (b'{"force": true}', "denied"),
    (b"", "allowed"),
    (b" \n", "allowed"),
    (b'{"force": false, "other": [1]}\n', "allowed"),
    (b"[" * 100_000, "denied"),
    (b"\xff not text", "denied"),
    (b'{"force": true} {}', "denied"),
    (b'{"force": false} {"force": true}', "denied"),
    (b'\xef\xbb\xbf{"force": true}', "denied"),
    ('{"force": true}'.encode("utf-16"), "denied"),
    (b'{"force": true, "force": false}', "denied"),
    (b'{"force": false, "force": true}', "denied"),
    (b'["--force"]', "denied"),
    (b'"{\\"force\\": true}"', "denied"),
]


@pytest.mark.promise("call-10")
@pytest.mark.parametrize(("stdin", "decision"), INPUTS)
async def test_what_a_script_reads_instead_of_its_arguments_is_judged_like_them(
    stdin: bytes | None, decision: str, call_of: MakeCall
) -> None:
    forced = Condition(argument="data.force", test=Equals(True))
    policy = Policy(rules=[Rule(verdict="deny", when=[forced])])
    call = call_of(arguments={"data": {}}, stdin=stdin)

    try:
        found = (await Authorizer(policy=policy).permit(call)).decision
    except CallDeniedError:
        found = "denied"

    assert found == decision


async def test_a_typed_script_that_reads_its_input_is_judged_by_the_object(
    call_of: MakeCall,
) -> None:
    forced = Condition(argument="force", test=Equals(True))
    policy = Policy(rules=[Rule(verdict="deny", when=[forced])])
    call = call_of(arguments={"force": False}, stdin=b'{"force": true}')
    typed = {"type": "object", "properties": {"force": {"type": "boolean"}}}

    with pytest.raises(CallDeniedError):
        await Authorizer(policy=policy).permit(
            replace(call, tool=replace(call.tool, input_schema=typed))
        )


async def test_a_restricted_skill_is_refused_before_anything_is_looked_at(
    call_of: MakeCall,
) -> None:
    call = call_of("allowed-tools: Read\n")

    with pytest.raises(ToolRestrictionError):
        await Authorizer(policy=Policy()).permit(call)
    permit = await Authorizer(policy=Policy(allowed_tools="advice")).permit(call)

    assert permit.decision == "allowed"


async def test_running_without_a_sandbox_was_said_by_the_caller(call_of: MakeCall) -> None:
    permit = await Authorizer(policy=Policy()).permit(call_of(sandbox="off"))

    assert permit.access == Access(unconfined=True)


@pytest.mark.promise("call-5")
async def test_a_skill_that_changed_during_the_question_is_refused(call_of: MakeCall) -> None:
    call = call_of(skillpouch_block(secrets="[K_1]"))

    def change(_: Question) -> bool:
        (Path(call.tool.home) / "new").touch()
        return True

    with pytest.raises(SkillChangedError):
        await Authorizer(policy=Policy(), approver=change, secrets=vault).permit(call)


@pytest.mark.promise("call-2")
async def test_a_need_that_is_never_granted_is_a_reason_beside_the_others(
    call_of: MakeCall,
) -> None:
    call = call_of(skillpouch_block(write="[/]", secrets="[K_1]", hosts="['not a host']"))

    with pytest.raises(CallDeniedError) as caught:
        await Authorizer(policy=Policy(), approver=lambda _: True).permit(call)

    assert [reason.partition(":")[0] for reason in caught.value.reasons[-2:]] == [
        "cannot grant host not a host",
        "cannot grant writing /",
    ]
    assert "K_1" in str(caught.value)


def test_a_refusal_goes_on_record_with_the_digest_and_without_granted_secrets(
    call_of: MakeCall,
) -> None:
    call = call_of()
    grant(call, Need(kind="secret", value="K_1"))
    permits = Authorizer(policy=Policy(), secrets=vault)

    denied = permits.refusal(call, CallDeniedError("no"))
    unset = permits.refusal(call, SecretUnsetError("demo", ["K_1"]))

    assert (denied.decision, unset.decision) == ("denied", "allowed")
    assert denied.redactor.text("hunter2hunter2") == "[redacted K_1]"
    assert len(denied.digest) == 64


def test_a_refusal_of_a_skill_that_is_gone_is_on_record_too(call_of: MakeCall) -> None:
    call = call_of()
    (Path(call.tool.home) / "scripts/echo.py").unlink()
    for path in sorted(Path(call.tool.home).rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    Path(call.tool.home).rmdir()

    refusal = Authorizer(policy=Policy()).refusal(call, SkillUnreadableError("x", "gone"))

    assert refusal == Permit(decision="allowed")


@pytest.mark.promise("grant-6")
async def test_grants_that_cannot_be_believed_stop_the_call(
    call_of: MakeCall, tmp_path: Path
) -> None:
    (tmp_path / "grants").mkdir()
    (tmp_path / "grants").chmod(0o777)

    with pytest.raises(GrantStoreError) as caught:
        await Authorizer(policy=Policy(), grants=Grants(tmp_path)).permit(call_of())

    assert isinstance(caught.value, SkillpouchError)


async def test_without_a_sandbox_only_a_consent_lets_a_call_run(
    call_of: MakeCall, tmp_path: Path
) -> None:
    call, error = call_of(), SandboxUnavailableError(("fs",))
    authorizer = Authorizer(policy=Policy(), grants=Grants(tmp_path / "state"))

    with pytest.raises(SandboxUnavailableError):
        await authorizer.without_sandbox(call, error)
    Grants(tmp_path / "state").give_consent()
    consented = await authorizer.without_sandbox(call, error)

    assert consented.access == Access(unconfined=True)


async def test_a_consent_gives_up_nothing_that_is_required_and_breaks_no_rule(
    call_of: MakeCall, tmp_path: Path
) -> None:
    Grants(tmp_path / "state").give_consent()
    call, error = call_of(), SandboxUnavailableError(("fs",))
    required = replace(call, terms=replace(call.terms, required=frozenset({"fs"})))
    rule = Rule(verdict="deny", needs=["unconfined"])
    free, strict = (
        Authorizer(policy=Policy(rules=rules), grants=Grants(tmp_path / "state"))
        for rules in ((), (rule,))
    )

    with pytest.raises(SandboxUnavailableError):
        await free.without_sandbox(required, error)
    with pytest.raises(CallDeniedError):
        await strict.without_sandbox(call, error)


def test_changed_since_it_was_granted_is_told_from_never_granted(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    front = "name: demo\ndescription: d\nmetadata: {skillpouch: {secrets: [K_1]}}\n"
    home = write_skill("demo", front, files={"scripts/x.py": "print(1)\n"})
    manager = SkillManager(home.parent, workspace=tmp_path, cache=False)
    with pytest.raises(CallDeniedError) as never:
        manager.call("demo.x")
    Grants().grant(manager.get_skill("demo"), [Need(kind="secret", value="K_1")])
    (home / "scripts/x.py").write_text("print(2)\n")
    with pytest.raises(CallDeniedError) as changed:
        manager.call("demo.x")

    assert "was granted" not in str(never.value)
    assert "scripts/x.py changed since" in str(changed.value)
    assert changed.value.hint.startswith(f"`skillpouch trust demo --renew --root {home.parent}`")


PROFILES = {"local-sockets": "true", "memory": "4GiB", "devices": "gpu", "loopback": "true"}


async def test_whoever_is_asked_for_a_profile_reads_what_it_opens_and_risks(
    call_of: MakeCall,
) -> None:
    asked: list[Question] = []

    def approve(question: Question) -> Answer:
        asked.append(question)
        return Answer(yes=True)

    call = call_of(skillpouch_block(**PROFILES))

    permit = await Authorizer(policy=Policy(), approver=approve).permit(call)

    kinds = [need.kind for need in asked[0].needs]
    assert kinds == ["devices", "local-sockets", "memory"]
    said = "\n".join(asked[0].reasons)
    for kind in (*kinds, "loopback"):
        opens, risks = profile_of(kind) or ("", "")
        assert (f"({opens}; the risk: {risks})" in said) is (kind != "loopback")
    assert permit.access.profiles == ("local-sockets", "loopback", "gpu")
    assert permit.applied_to(call).limits == replace(call.limits, memory_bytes=4 << 30)


async def test_a_trusting_policy_gives_local_sockets_and_asks_for_what_others_may_lack(
    call_of: MakeCall,
) -> None:
    call = call_of(skillpouch_block(**PROFILES))

    with pytest.raises(CallDeniedError) as refusal:
        await Authorizer(policy=Policy.trusting()).permit(call)

    said = str(refusal.value)
    assert "4GiB of memory" in said
    assert "the device gpu" in said
    assert "local sockets" not in said


async def test_memory_that_the_owner_has_given_is_not_asked_for(call_of: MakeCall) -> None:
    call = call_of(skillpouch_block(memory="4GiB"), limits=Limits(memory_bytes=8 << 30))

    permit = await Authorizer(policy=Policy()).permit(call)

    assert permit.applied_to(call).limits.memory_bytes == 8 << 30


@pytest.mark.parametrize(
    ("verdict", "pattern", "wanted", "allowed"),
    [
        ("allow", "memory", "4GiB", True),
        ("allow", "memory:4GiB", "4GiB", True),
        ("allow", "memory:4GiB", "5GiB", False),
        ("deny", "memory:4GiB", "2GiB", True),
        ("deny", "memory:4GiB", "4096MiB", False),
        ("allow", "local-sockets", "4GiB", False),
    ],
)
async def test_rules_give_and_refuse_memory_by_its_size(
    call_of: MakeCall, verdict: Any, pattern: str, wanted: str, allowed: bool
) -> None:
    call = call_of(skillpouch_block(memory=wanted))
    path = str(Path(call.tool.home).parent)
    rules = [Rule(verdict=verdict, needs=[pattern], path=path)]
    if verdict == "deny":
        rules.append(Rule(verdict="allow", needs=["memory"], path=path))
    authorizer = Authorizer(policy=Policy(rules=rules))

    if allowed:
        assert (await authorizer.permit(call)).access.memory_bytes is not None
    else:
        with pytest.raises(CallDeniedError):
            await authorizer.permit(call)
