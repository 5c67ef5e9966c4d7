"""Tools of Skillpouch as LangChain tools: schemas, arguments, answers."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from skillpouch import SkillManager, ToolResult, tool
from skillpouch.integrations.langchain import (
    RawJsonInput,
    SkillInput,
    SkillpouchTool,
    create_langchain_tools,
    get_skill_tools,
)
from skillpouch.integrations.long_calls import LongCallOptions
from skillpouch.jobs.job import NoSuchJobError
from skillpouch.policy.approval import Answer, Question
from tests.integrations.conftest import JOB_TOOLS, Gate

pytestmark = pytest.mark.slow

WriteSkill = Callable[..., Path]

EXAMPLES = Path(__file__).parent.parent.parent.parent / "examples" / "skills"
SAYS_WHAT_IT_GOT = "import json, sys\n\nprint(json.dumps(json.load(sys.stdin)))\n"
PIXEL = b"\x89PNG\r\n\x1a\n" + b"\0" * 24


def manager_over(home: Path) -> SkillManager:
    workspace = home.parent.parent / "work"
    workspace.mkdir()
    return SkillManager(home.parent, workspace=workspace)


def by_id(tools: list[SkillpouchTool]) -> dict[str, SkillpouchTool]:
    return {(each.metadata or {})["id"]: each for each in tools}


def declared(name: str, properties: dict[str, object]) -> str:
    schema = {"type": "object", "properties": properties}
    return json.dumps(
        [{"name": name, "description": "Echo.", "script": "echo.py", "parameters": schema}]
    )


def test_a_skill_gives_one_tool_for_itself_and_one_for_each_of_its_tools() -> None:
    tools = create_langchain_tools(SkillManager(EXAMPLES), include=["calculator*"])

    assert [(each.name, (each.metadata or {})["id"]) for each in tools] == [
        ("calculator", "calculator"),
        ("calculator__add", "calculator.add"),
        ("calculator__multiply", "calculator.multiply"),
        ("calculator__stats__mean", "calculator.stats.mean"),
        ("calculator__stats__median", "calculator.stats.median"),
        ("calculator__stats__stdev", "calculator.stats.stdev"),
    ]
    assert all(isinstance(each, StructuredTool) for each in tools)


def test_every_name_is_legal_for_every_provider() -> None:
    tools = create_langchain_tools(SkillManager(EXAMPLES, builtins=True, disclosure=True))

    names = [each.name for each in tools]

    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in names)


def test_a_typed_tool_shows_its_own_schema_to_a_model() -> None:
    manager = SkillManager(EXAMPLES)

    (multiply,) = create_langchain_tools(manager, include="calculator.multiply", skills="none")

    schema = manager.get_tool("calculator.multiply").input_schema
    assert multiply.args == schema["properties"]
    assert convert_to_openai_tool(multiply)["function"] == {
        "name": "calculator__multiply",
        "description": "Multiply two or more numbers.",
        "parameters": {key: schema[key] for key in schema if key != "title"},
    }


def test_untyped_tools_and_skills_take_what_the_named_models_say(write_skill: WriteSkill) -> None:
    home = write_skill("plain", files={"scripts/run.py": SAYS_WHAT_IT_GOT})

    skill, script = create_langchain_tools(manager_over(home))

    assert (skill.args_schema, script.args_schema) == (SkillInput, RawJsonInput)
    assert convert_to_openai_tool(script)["function"]["parameters"]["properties"].keys() == {"data"}


@pytest.mark.parametrize(
    "name", ["config", "run_manager", "callbacks", "runtime", "state", "store", "self", "args"]
)
async def test_an_argument_arrives_whatever_its_name_is(write_skill: WriteSkill, name: str) -> None:
    files = {"tools.json": declared("echo", {name: {}}), "echo.py": SAYS_WHAT_IT_GOT}
    manager = manager_over(write_skill("echo-skill", files=files))
    (echo,) = get_skill_tools(manager, "echo-skill")

    blocking = json.loads(echo.invoke({name: {"deep": 1}}))
    awaited = json.loads(await echo.ainvoke({name: {"deep": 1}}))

    assert (blocking[name], awaited[name]) == ({"deep": 1}, {"deep": 1})


async def test_in_an_agent_the_answer_is_a_message_that_carries_the_result(
    write_skill: WriteSkill,
) -> None:
    home = write_skill("greeter", files={"scripts/greet.sh": 'echo "Hello, $1!"\n'})
    (greet,) = get_skill_tools(manager_over(home), "greeter")
    call = {"name": greet.name, "args": {"args": ["Ada"]}, "id": "7", "type": "tool_call"}

    messages = [greet.invoke(call), await greet.ainvoke(call)]

    for message in messages:
        assert isinstance(message, ToolMessage)
        assert (message.content, message.status) == ("Hello, Ada!", "success")
        assert (message.tool_call_id, message.name) == ("7", "greeter__greet")
        assert isinstance(message.artifact, ToolResult)
        assert (message.artifact.stdout, message.artifact.exit_code) == ("Hello, Ada!\n", 0)


def test_many_tools_made_in_one_go_each_run_their_own_script(write_skill: WriteSkill) -> None:
    files = {f"scripts/say{number}.sh": f"echo {number}\n" for number in range(5)}
    home = write_skill("sayings", files=files)

    tools = get_skill_tools(manager_over(home), "sayings")

    assert [each.invoke({}) for each in tools] == ["0", "1", "2", "3", "4"]


def test_an_image_is_a_block_of_the_content(tmp_path: Path) -> None:
    (tmp_path / "dot.png").write_bytes(PIXEL)
    manager = SkillManager(tmp_path / "none", workspace=tmp_path, builtins=True)
    (read,) = create_langchain_tools(manager, include="read")

    text, image = read.invoke({"file_path": "dot.png"})

    assert text == {"type": "text", "text": "dot.png: image/png, 32 bytes"}
    assert (image["type"], image["mime_type"]) == ("image", "image/png")


def test_a_function_is_a_tool_without_a_manager() -> None:
    @tool
    def double(number: int) -> int:
        """Double a number."""
        return number * 2

    (made,) = create_langchain_tools([double])

    assert (made.name, made.description, made.invoke({"number": 21})) == (
        "double",
        "Double a number.",
        "42",
    )


def test_include_and_exclude_go_by_skill_id_and_name() -> None:
    manager = SkillManager(EXAMPLES)

    tools = create_langchain_tools(
        manager, include=["calculator", "slugify"], exclude="*.stats.*", naming="dotted"
    )

    assert [each.name for each in tools] == [
        "calculator",
        "calculator.add",
        "calculator.multiply",
        "text-tools.slugify",
    ]


def test_a_skill_kept_for_people_is_left_out_unless_it_is_named(write_skill: WriteSkill) -> None:
    front = "name: deploy\ndescription: Deploys.\ndisable-model-invocation: true\n"
    home = write_skill("deploy", front, files={"scripts/go.sh": "echo gone\n"})
    manager = manager_over(home)

    assert create_langchain_tools(manager) == []
    assert [each.name for each in get_skill_tools(manager, "deploy")] == ["deploy__go"]


def test_a_tool_that_is_not_ready_says_so_to_the_model(write_skill: WriteSkill) -> None:
    front = "name: video\ndescription: V.\nrequires:\n  bins: [no-such-program-anywhere]\n"
    home = write_skill("video", front, files={"scripts/cut.sh": "# Cut a film\necho\n"})

    (cut,) = get_skill_tools(manager_over(home), "video")

    assert cut.description.startswith("Cut a film (not ready: ")
    assert "no-such-program-anywhere" in cut.description
    assert (cut.metadata or {})["ready"] is False


@pytest.mark.parametrize("wrong", [{"naming": "dots"}, {"skills": "all"}])
def test_a_wrong_word_is_refused_at_once(tmp_path: Path, wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="use '"):
        create_langchain_tools(SkillManager(tmp_path), **wrong)  # type: ignore[arg-type]


def test_a_reload_changes_what_a_tool_runs_not_which(write_skill: WriteSkill) -> None:
    home = write_skill("clock", files={"scripts/tick.sh": "echo tick\n"})
    manager = manager_over(home)
    (tick,) = get_skill_tools(manager, "clock")
    (home / "scripts/tick.sh").write_text("echo tock, later\n")
    manager.discover()

    assert tick.invoke({}) == "tock, later"


def test_a_tool_that_an_agent_defined_is_among_the_tools(tmp_path: Path) -> None:
    async def yes(_: Question) -> Answer:
        return Answer(yes=True)

    (tmp_path / "skills").mkdir()
    manager = SkillManager(tmp_path / "skills", define_tools=True, approver=yes)
    code = "def handler(args):\n    return 'hi'\n"
    manager.call("define_tool", {"name": "hi", "description": "Say hi.", "code": code})

    tools = {each.name: each for each in create_langchain_tools(manager)}

    assert list(tools) == ["define_tool", "remove_tool", "hi"]
    assert tools["hi"].invoke({}) == "hi"


def test_the_manager_may_be_said_by_name(write_skill: WriteSkill) -> None:
    manager = SkillManager(write_skill().parent)

    assert [tool.name for tool in create_langchain_tools(manager=manager)] == ["demo"]


@pytest.mark.promise("leave-1")
async def test_calls_that_take_long_go_on_and_are_waited_for_read_and_cancelled_by_their_owner(
    gate: Gate, soon: LongCallOptions
) -> None:
    made = create_langchain_tools(gate.manager, skills="none", long_calls=soon)
    tools = {each.name: each for each in made}
    other = LongCallOptions(soft_limit_seconds=0.3, owner="somebody else")
    theirs = create_langchain_tools(gate.manager, skills="none", long_calls=other)

    left = [await tools["slow__gated"].ainvoke({"args": [word]}) for word in "ab"]
    first, second = gate.job_ids
    refused = []
    for each in theirs[-3:]:
        with pytest.raises(NoSuchJobError) as raised:
            await each.ainvoke({"id": second})
        refused.append(str(raised.value).splitlines()[0])
    gate.end("a", first)
    ended = tools["job_wait"].invoke({"id": first})
    printed = tools["job_output"].invoke({"id": second})
    cancelled = await tools["job_cancel"].ainvoke({"id": second})

    assert list(tools) == ["slow__gated", *JOB_TOOLS]
    assert (first in left[0], second in left[1]) == (True, True)
    assert refused == [f"no job '{second}'"] * 3
    assert (ended, cancelled) == ("begun\nended", f"job {second} (slow.gated) is cancelled")
    assert printed.startswith("begun\n")
    assert gate.ran == ["a", "b"]


def test_a_list_whose_tools_all_end_soon_has_no_tools_for_jobs_unless_asked(gate: Gate) -> None:
    patient = LongCallOptions(soft_limit_seconds=700)
    plain = create_langchain_tools(gate.manager, skills="none", long_calls=patient)
    always = LongCallOptions(soft_limit_seconds=700, list_tools=True)
    asked = create_langchain_tools(gate.manager, skills="none", long_calls=always)

    assert [each.name for each in plain] == ["slow__gated"]
    assert [each.name for each in asked] == ["slow__gated", *JOB_TOOLS]
