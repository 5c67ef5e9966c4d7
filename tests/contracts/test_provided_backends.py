"""A tool of a `type:` that another package provides is a tool like any other."""

import importlib.metadata
import json
import pickle
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from skillpouch import Policy, SkillManager, ToolExecutor
from skillpouch.errors import CallDeniedError, NotProvidedError, ProviderError
from skillpouch.journal.journal import Journal
from skillpouch.journal.reading import JournalReader, Query
from skillpouch.policy.approval import Answer, Question
from skillpouch.policy.rules import Rule
from skillpouch.tools import External
from tests.conftest import WriteSkill
from tests.contracts.conftest import Install

CITIES = {
    "name": "cities",
    "description": "Cities of a country.",
    "parameters": {
        "type": "object",
        "properties": {"country": {"type": "string"}},
        "required": ["country"],
    },
    "backend": {
        "type": "sqlite",
        "package": "skillpouch-example",
        "database": "geo.db",
        "query": "SELECT name FROM city WHERE country = :country ORDER BY name",
    },
}
BESIDE = {
    "name": "beside",
    "description": "Says beside.",
    "backend": {"type": "script", "interpreter": "bash", "script": "echo beside"},
}
LOOK = "look at it before you install it"
WITHOUT_ONE = "no installed package provides the backend type 'sqlite', an entry point of that name"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    with sqlite3.connect(folder / "geo.db") as database:
        database.execute("CREATE TABLE city (name TEXT, country TEXT)")
        rows = [("Lyon", "fr"), ("Nice", "fr"), ("Bonn", "de")]
        database.executemany("INSERT INTO city VALUES (?, ?)", rows)
    database.close()
    return folder


def skills(write_skill: WriteSkill, *tools: object) -> Path:
    return write_skill("geo", files={"tools.json": json.dumps(tools or [CITIES, BESIDE])}).parent


def yes(question: Question) -> Answer:
    del question
    return Answer(yes=True)


@pytest.mark.usefixtures("example")
def test_a_package_runs_the_tools_of_the_type_that_it_provides(
    write_skill: WriteSkill, work: Path
) -> None:
    manager = SkillManager(skills(write_skill), workspace=work, approver=yes)

    tool = manager.get_skill_tools("geo")[0]
    result = manager.call("geo.cities", {"country": "fr"})

    assert (tool.kind, tool.ready) == ("external", True)
    assert isinstance(tool.runs, External)
    assert tool.runs.options == {
        "database": "geo.db",
        "query": "SELECT name FROM city WHERE country = :country ORDER BY name",
    }
    assert (result.outcome, result.structured) == ("ok", [{"name": "Lyon"}, {"name": "Nice"}])
    assert manager.problems == []


def test_a_type_that_no_package_provides_says_which_to_install(
    write_skill: WriteSkill, work: Path
) -> None:
    manager = SkillManager(skills(write_skill), workspace=work, approver=yes)

    cities, beside = manager.get_skill_tools("geo")
    with pytest.raises(NotProvidedError) as refused:
        manager.call("geo.cities", {"country": "fr"})

    told = f"{WITHOUT_ONE} in skillpouch.backends: its skill names skillpouch-example, {LOOK}"
    assert cities.missing == (told,)
    assert [(p.code, p.message) for p in manager.problems] == [
        ("backend-not-provided", f"tool 'cities': {told}")
    ]
    assert refused.value.hint.startswith(f"the skill names skillpouch-example, {LOOK}")
    assert "'sqlite' of the entry points skillpouch.backends" in str(refused.value)
    assert beside.ready
    assert manager.call("geo.beside").content == "beside"


def test_a_package_that_comes_later_is_found_though_no_file_of_the_skill_changed(
    write_skill: WriteSkill, work: Path, request: pytest.FixtureRequest
) -> None:
    root = skills(write_skill)
    assert not SkillManager(root, workspace=work, approver=yes).get_skill_tools("geo")[0].ready

    request.getfixturevalue("example")
    manager = SkillManager(root, workspace=work, approver=yes)

    assert manager.get_skill_tools("geo")[0].ready
    assert manager.problems == []
    again = SkillManager(root, workspace=work, approver=yes)  # from the index
    assert again.call("geo.cities", {"country": "de"}).structured == [{"name": "Bonn"}]


def test_what_is_installed_is_read_once_for_all_tools_that_ask_for_it(
    write_skill: WriteSkill, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    real = importlib.metadata.entry_points

    def counted(*, group: str) -> importlib.metadata.EntryPoints:
        read.append(group)
        return real(group=group)

    monkeypatch.setattr(importlib.metadata, "entry_points", counted)
    several = [
        {**CITIES, "name": f"t{number}", "backend": {"type": f"none{number}"}}
        for number in range(50)
    ]
    monkeypatch.syspath_prepend(work)  # so that nothing is known yet

    tools = SkillManager(skills(write_skill, *several), workspace=work).get_skill_tools("geo")

    assert len(tools) == 50
    assert read == ["skillpouch.backends"]


@pytest.mark.parametrize(
    "package", ["-r evil.txt", "a b", "http://evil.example/x.whl", "x; rm -rf /", "x\u202ey"]
)
def test_a_package_that_is_no_name_is_never_shown_as_one_to_install(
    write_skill: WriteSkill, work: Path, package: str
) -> None:
    backend = {"type": "sqlite", "package": package}
    manager = SkillManager(
        skills(write_skill, {**CITIES, "backend": backend}, BESIDE), workspace=work
    )

    tools = manager.get_skill_tools("geo")

    (problem,) = manager.problems
    assert problem.code == "backend-invalid"
    assert "`package` is not the name of a package" in problem.message
    assert "geo.beside" in [tool.id for tool in tools]


def test_a_type_that_is_nearly_one_of_ours_is_taken_for_a_typo(
    write_skill: WriteSkill, work: Path
) -> None:
    typo = {**BESIDE, "backend": {**BESIDE["backend"], "type": "scirpt"}}  # type: ignore[dict-item]
    manager = SkillManager(skills(write_skill, typo), workspace=work)

    (tool,) = manager.get_skill_tools("geo")

    assert tool.missing[0].startswith("did you mean 'script'? no installed package provides")


@pytest.mark.promise("call-12")
@pytest.mark.usefixtures("example")
def test_a_call_in_this_process_is_judged_as_one_that_nothing_holds(
    write_skill: WriteSkill, work: Path
) -> None:
    root = skills(write_skill)

    with pytest.raises(CallDeniedError, match="needs to run without confinement") as refused:
        SkillManager(root, workspace=work).call("geo.cities", {"country": "fr"})
    (tool, _) = SkillManager(root, workspace=work).get_skill_tools("geo")
    rule = Rule(verdict="allow", tools=["geo.cities"], needs=["unconfined"], path=[str(root)])
    allowed = SkillManager(root, workspace=work, policy=Policy(rules=[rule]))

    assert "tools.json (tool cities)" in str(refused.value)
    assert not tool.ready
    assert allowed.call("geo.cities", {"country": "de"}).content == '[{"name": "Bonn"}]'


@pytest.mark.usefixtures("example")
def test_whoever_is_asked_is_shown_the_options(write_skill: WriteSkill, work: Path) -> None:
    asked: list[Question] = []

    def no(question: Question) -> Answer:
        asked.append(question)
        return Answer(yes=False)

    manager = SkillManager(skills(write_skill), workspace=work, approver=no)
    with pytest.raises(CallDeniedError):
        manager.call("geo.cities", {"country": "fr"})

    (question,) = asked
    assert question.runs.startswith("the backend 'sqlite' of another package, in this process")
    assert '"database": "geo.db"' in question.runs


@pytest.mark.usefixtures("example")
def test_the_tool_of_a_text_is_judged_as_well() -> None:
    declared = "\n".join(f"    {key}: {json.dumps(value)}" for key, value in CITIES.items())
    text = f"---\nname: geo\ndescription: Geo.\ntools:\n  -\n{declared}\n---\n"
    executor = ToolExecutor()

    assert executor.register_skill_tools(text) == ["cities"]
    with pytest.raises(CallDeniedError, match="needs to run without confinement"):
        executor.execute_sync("cities", {"country": "fr"})


PROVIDER = """
import asyncio
from skillpouch.results import ToolResult

class Talkative:
    async def run(self, call):
        options = call.tool.runs.options
        if "raise" in options:
            raise RuntimeError(options["raise"])
        if "sleep" in options:
            try:
                await asyncio.sleep(options["sleep"])
            except asyncio.CancelledError:
                if not options.get("stubborn"):
                    raise
        if options.get("write"):
            (call.terms.workspace / options["write"]).write_text("x")
        if call.on_output:
            for piece in options.get("pieces", ()):
                call.on_output("stdout", piece.encode())
        if "plain" in options:
            return options["plain"]
        text = options.get("text", "") * options.get("times", 1)
        text += "".join(call.access.secrets.values())
        return ToolResult(tool="another", outcome="ok", content=text, stdout=text,
                          structured=options.get("value"))

def broken():
    raise ImportError("no module named driver")

class NoBackend:
    pass
"""
POINTS = {
    "skillpouch.backends": {
        "talkative": "talkative:Talkative",
        "broken": "talkative:broken",
        "nothing": "talkative:NoBackend",
        "absent": "talkative:Absent",
    }
}


@pytest.fixture
def talkative(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install("talkative", POINTS, {"talkative.py": PROVIDER})
    monkeypatch.delitem(sys.modules, "talkative", raising=False)


def talk(root: Path, work: Path, tmp_path: Path) -> SkillManager:
    return SkillManager(root, workspace=work, approver=yes, journal=Journal(tmp_path / "journal"))


def tool(name: str = "talk", *, output: object = None, **options: object) -> dict[str, object]:
    backend = {"type": "talkative", **options}
    declared: dict[str, object] = {"name": name, "description": "Talks.", "backend": backend}
    return declared if output is None else {**declared, "output_schema": output}


@pytest.mark.usefixtures("talkative")
def test_what_a_backend_gives_is_bounded_and_recorded_under_the_name_of_the_tool(
    write_skill: WriteSkill, work: Path, tmp_path: Path
) -> None:
    manager = talk(skills(write_skill, tool(text="abcdefgh", times=50_000)), work, tmp_path)

    result = manager.call("geo.talk")

    assert result.tool == "geo.talk"
    assert result.truncated
    assert len(result.content) < 110_000
    assert [path.read_text() for path in result.saved] == ["abcdefgh" * 50_000] * 2
    with JournalReader(tmp_path / "journal") as reader:
        (record,) = reader.after(Query())
    assert (record.tool, record.outcome) == ("geo.talk", "ok")


@pytest.mark.usefixtures("talkative")
def test_a_backend_that_does_not_let_itself_be_ended_is_not_waited_for(
    write_skill: WriteSkill, work: Path, tmp_path: Path
) -> None:
    root = skills(write_skill, tool(sleep=60), tool("stubborn", sleep=60, stubborn=True))
    manager = talk(root, work, tmp_path)

    ended = manager.call("geo.talk", timeout=0.1)
    stubborn = manager.call("geo.stubborn", timeout=0.1)

    for result in (ended, stubborn):
        assert (result.outcome, result.exit_code, result.code) == ("timed_out", 124, "timeout")


@pytest.mark.usefixtures("talkative")
def test_what_a_backend_raises_or_returns_instead_of_a_result_is_a_failed_call(
    write_skill: WriteSkill, work: Path, tmp_path: Path
) -> None:
    root = skills(write_skill, tool(**{"raise": "it broke"}), tool("text", plain="only text"))
    manager = talk(root, work, tmp_path)

    raised, text = manager.call("geo.talk"), manager.call("geo.text")

    assert (raised.outcome, raised.stderr) == ("failed", "RuntimeError: it broke")
    assert text.stderr == "its backend returned a str, not a ToolResult"


@pytest.mark.usefixtures("talkative")
def test_secrets_are_taken_out_of_what_a_backend_says_and_streams(
    write_skill: WriteSkill, work: Path
) -> None:
    declared = tool(pieces=["say hunt", "er2hunter2!", "."], note="${env:GEO_KEY}")
    heard: list[bytes] = []
    manager = SkillManager(
        skills(write_skill, declared),
        workspace=work,
        approver=yes,
        secrets=lambda _, name: "hunter2hunter2" if name == "GEO_KEY" else None,
    )

    result = manager.call("geo.talk", on_output=lambda _, data: heard.append(data))

    assert result.content == result.stdout == "[redacted GEO_KEY]"
    assert b"".join(heard) == b"say [redacted GEO_KEY]!."


@pytest.mark.usefixtures("talkative")
def test_the_output_schema_of_a_tool_is_judged(
    write_skill: WriteSkill, work: Path, tmp_path: Path
) -> None:
    schema = {"type": "object", "required": ["size"]}
    root = skills(write_skill, tool(output=schema, value={"size": 1}), tool("b", output=schema))
    manager = talk(root, work, tmp_path)

    assert manager.call("geo.talk").structured == {"size": 1}
    assert manager.call("geo.b").is_error


@pytest.mark.usefixtures("talkative")
def test_what_a_backend_wrote_in_the_workspace_is_listed(
    write_skill: WriteSkill, work: Path, tmp_path: Path
) -> None:
    manager = talk(skills(write_skill, tool(write="made.txt")), work, tmp_path)

    assert [file.path for file in manager.call("geo.talk").files] == ["made.txt"]


@pytest.mark.usefixtures("talkative")
@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("broken", "talkative:broken of talkative 1.0 cannot be loaded: ImportError: no module"),
        ("absent", "talkative:Absent of talkative 1.0 cannot be loaded: AttributeError"),
        ("nothing", "what talkative:NoBackend of talkative 1.0 makes has no method 'run'"),
    ],
)
def test_a_package_that_cannot_be_used_is_named(
    write_skill: WriteSkill, work: Path, kind: str, reason: str
) -> None:
    declared = {**tool(), "backend": {"type": kind}}
    manager = SkillManager(skills(write_skill, declared), workspace=work, approver=yes)

    with pytest.raises(ProviderError) as refused:
        manager.call("geo.talk")

    assert reason in str(refused.value)


@pytest.mark.usefixtures("talkative")
def test_two_packages_of_one_type_are_both_named_and_neither_is_chosen(
    write_skill: WriteSkill, work: Path, install: Install
) -> None:
    install("other", {"skillpouch.backends": {"talkative": "talkative:NoBackend"}})
    manager = SkillManager(skills(write_skill, tool()), workspace=work, approver=yes)

    with pytest.raises(ProviderError, match=r"(talkative|other) 1\.0 provide it"):
        manager.call("geo.talk")


def test_a_package_cannot_take_the_place_of_one_of_our_types(
    write_skill: WriteSkill, work: Path, install: Install
) -> None:
    install("taking", {"skillpouch.backends": {"script": "talkative:Absent"}})
    manager = SkillManager(skills(write_skill, BESIDE), workspace=work)

    assert manager.call("geo.beside").content == "beside"


def test_a_package_that_is_no_text_loses_its_tool_only(write_skill: WriteSkill, work: Path) -> None:
    odd = {**tool("odd"), "backend": {"type": "talkative", "package": ["a"]}}
    manager = SkillManager(skills(write_skill, odd, BESIDE), workspace=work)

    assert [tool.id for tool in manager.get_skill_tools("geo")] == ["geo.beside"]
    assert [problem.message for problem in manager.problems] == ["package is a list, not text"]


@pytest.mark.usefixtures("example")
def test_such_a_tool_is_pickled_and_shown_whole(write_skill: WriteSkill, work: Path) -> None:
    root = skills(write_skill)
    (tool, _) = SkillManager(root, workspace=work).get_skill_tools("geo")

    ran = subprocess.run(
        [sys.executable, "-m", "skillpouch", "show", "geo.cities", "--root", root, "--json"],
        capture_output=True,
        check=True,
    )

    assert pickle.loads(pickle.dumps(tool)).runs == tool.runs
    shown = json.loads(ran.stdout)
    assert shown["runs"] == {
        "type": "sqlite",
        "options": dict(tool.runs.options),  # type: ignore[union-attr]
        "package": "skillpouch-example",
    }


def test_nobody_looks_for_packages_whose_skills_need_none(
    write_skill: WriteSkill, work: Path
) -> None:
    root = skills(write_skill, BESIDE)
    program = (
        "import importlib.metadata; from skillpouch import SkillManager\n"
        "importlib.metadata.entry_points = None\n"
        f"manager = SkillManager({str(root)!r}, workspace={str(work)!r})\n"
        "manager.get_skill_tools('geo'); manager.problems\n"
        "print(manager.call('geo.beside').content)"
    )

    command = [sys.executable, "-c", program]
    first = subprocess.run(command, capture_output=True, check=True)
    again = subprocess.run(command, capture_output=True, check=True)  # from the index

    assert first.stdout == again.stdout == b"beside\n"


@pytest.mark.usefixtures("example")
@pytest.mark.promise("call-12")
def test_an_approval_for_good_is_for_the_one_tool_and_frees_no_script_of_its_skill(
    write_skill: WriteSkill, work: Path
) -> None:
    asked: list[str] = []

    def always(question: Question) -> Answer:
        asked.append(question.tool)
        return Answer(yes=True, remember="always")

    root = skills(write_skill)
    first = SkillManager(root, workspace=work, approver=always)
    confined = first.call("geo.beside").protections
    first.call("geo.cities", {"country": "fr"})
    first.call("geo.cities", {"country": "de"})
    later = SkillManager(root, workspace=work)  # nobody can be asked

    assert asked == ["geo.cities"]
    assert later.call("geo.cities", {"country": "de"}).structured == [{"name": "Bonn"}]
    assert first.call("geo.beside").protections == confined
    assert later.call("geo.beside").protections == confined
    (root / "geo" / "more.txt").write_text("changed")
    with pytest.raises(CallDeniedError):
        SkillManager(root, workspace=work).call("geo.cities", {"country": "de"})


_HOSTILE = """
import asyncio
from skillpouch.errors import SkillpouchError
from pathlib import Path
from skillpouch.results import ToolResult

class Hostile:
    async def run(self, call):
        if call.tool.runs.options["how"] == "repeat":
            key = call.access.secrets["API_KEY"]
            return ToolResult(
                tool=key, outcome="ok", content=key, stdout=key, stderr=key,
                structured={key: [key]},
                protections={"fs": key}, saved=(Path(key),), refused_hosts=(key,), run_later=(key,),
            )
        if call.tool.runs.options["how"] == "raise":
            raise SkillpouchError("no", hint=call.access.secrets["API_KEY"])
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass
        for _ in range(60):  # past the wait for it, and not for the rest of the test run
            await asyncio.sleep(0.05)
            call.on_output("stdout", b"late")
"""


def _hostile(how: str) -> dict[str, object]:
    backend = {"type": "hostile", "how": how, "key": "${env:API_KEY}", "timeout_ms": 200}
    return {"name": how, "description": "Fails.", "backend": backend}


@pytest.mark.promise("call-4")
@pytest.mark.parametrize(("how", "outcome"), [("raise", "failed"), ("repeat", "ok")])
def test_a_backend_that_repeats_a_secret_gives_a_redacted_result(
    write_skill: WriteSkill,
    work: Path,
    install: Install,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
    outcome: str,
) -> None:
    install("hostile", {"skillpouch.backends": {"hostile": "hostile:Hostile"}}, _FILES)
    monkeypatch.setenv("API_KEY", "wj8-sesame-41x")
    manager = SkillManager(skills(write_skill, _hostile(how)), workspace=work, approver=yes)

    result = manager.call(f"geo.{how}")

    assert result.outcome == outcome
    assert "wj8-sesame-41x" not in repr(result)


def test_a_backend_that_goes_on_after_its_call_streams_nothing_more(
    write_skill: WriteSkill, work: Path, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("hostile", {"skillpouch.backends": {"hostile": "hostile:Hostile"}}, _FILES)
    monkeypatch.setenv("API_KEY", "wj8-sesame-41x")
    manager = SkillManager(skills(write_skill, _hostile("late")), workspace=work, approver=yes)
    heard: list[bytes] = []

    result = manager.executor.execute_sync("geo.late", on_output=lambda _, data: heard.append(data))
    before = len(heard)
    time.sleep(0.3)

    assert result.outcome == "timed_out"
    assert len(heard) == before


_FILES = {"hostile.py": _HOSTILE}
