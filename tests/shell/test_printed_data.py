"""What a command of a script prints: the data of its tool, never the words made for a model."""

import json
from pathlib import Path
from typing import Any

import pytest

from skillpouch import Policy, ScriptedTool, SkillManager
from skillpouch.policy import Rule
from skillpouch.shell.builder import EngineKind
from tests.conftest import WriteSkill
from tests.net.http.servers import Server, reply

pytestmark = pytest.mark.slow

TRUSTING = Policy(mode="trusting", rules=[Rule(verdict="allow", needs=["host"], path="/")])
NOISY = """\
def handler(args):
    print("on the way: [1, 2]")
    return args.get("give")
"""


@pytest.fixture(params=["inproc", "worker"])
def engine(request: pytest.FixtureRequest) -> EngineKind:
    found: EngineKind = request.param
    return found


@pytest.fixture(autouse=True)
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def over(root: Path, engine: EngineKind, **options: Any) -> ScriptedTool:
    work = root.parent / "work"
    return ScriptedTool.over(SkillManager(root, workspace=work, **options), engine=engine)


def web_skill(write_skill: WriteSkill, url: str) -> Path:
    entry = {
        "name": "j",
        "description": "Ask.",
        "backend": {"type": "http", "method": "GET", "url": url},
        "parameters": {"type": "object", "properties": {}},
    }
    front = f"name: web\ndescription: Asks.\ntools: {json.dumps([entry])}\n"
    return write_skill("web", front=front).parent


def test_an_http_tool_prints_its_body_and_nothing_else(
    write_skill: WriteSkill, engine: EngineKind
) -> None:
    with Server(lambda _, write: write(reply('{"temp": 21}', kind="application/json"))) as server:
        tool = over(web_skill(write_skill, server.url), engine, policy=TRUSTING)

        ran = tool.execute_sync("web.j; web.j | jq .temp")

    assert (ran.stdout, ran.stderr, ran.exit_code) == ('{"temp": 21}\n21\n', "", 0)


def test_an_empty_body_prints_nothing(write_skill: WriteSkill, engine: EngineKind) -> None:
    with Server(lambda _, write: write(reply("", "204 No Content"))) as server:
        tool = over(web_skill(write_skill, server.url), engine, policy=TRUSTING)

        ran = tool.execute_sync("web.j")

    assert (ran.stdout, ran.stderr, ran.exit_code) == ("", "", 0)


def test_a_body_longer_than_a_model_is_shown_goes_whole_through_a_pipe(
    write_skill: WriteSkill,
) -> None:
    body = json.dumps({"rows": ["x" * 100] * 5_000, "last": 7})
    with Server(lambda _, write: write(reply(body, kind="application/json"))) as server:
        tool = over(web_skill(write_skill, server.url), "worker", policy=TRUSTING)

        ran = tool.execute_sync("web.j | jq .last")

    assert (ran.stdout, ran.stderr) == ("7\n", "")


def test_a_body_that_is_no_text_prints_nothing_and_says_where_it_is(
    write_skill: WriteSkill,
) -> None:
    with Server(lambda _, write: write(reply(b"\xff\xd8\x00", kind="image/jpeg"))) as server:
        tool = over(web_skill(write_skill, server.url), "worker", policy=TRUSTING)

        ran = tool.execute_sync("web.j")

    assert ran.stdout == ""
    assert ran.stderr.startswith("note: web.j: its answer is not text; it is saved as ")


def test_the_body_of_a_failure_is_printed_too(write_skill: WriteSkill) -> None:
    answer = reply('{"error": "no such city"}', "404 Not Found", "application/json")
    with Server(lambda _, write: write(answer)) as server:
        tool = over(web_skill(write_skill, server.url), "worker", policy=TRUSTING)

        ran = tool.execute_sync("web.j | jq -r .error; web.j > /dev/null; echo $?")

    assert ran.stdout == "no such city\n1\n"
    assert ran.stderr == "web.j: HTTP 404 Not Found\n" * 2


@pytest.mark.parametrize(
    ("given", "printed"),
    [
        ({"a": 1}, '{"a": 1}\n'),
        ("on the way", "on the way\n"),  # what it printed holds what it returns
        ([1, 2], "[1, 2]\n"),
        (None, "null\n"),
        (0, "0\n"),
        ("", ""),
        ("x" * 200_000, "x" * 200_000 + "\n"),
    ],
)
def test_a_handler_prints_its_value_not_what_it_printed_on_the_way(
    given: Any, printed: str, write_skill: WriteSkill
) -> None:
    schema = {"type": "object", "properties": {"give": {}}, "additionalProperties": False}
    tools = [{"name": "h", "description": "H.", "parameters": schema, "script": "scripts/h.py"}]
    files = {"tools.json": json.dumps(tools), "scripts/h.py": NOISY}
    root = write_skill("noisy", files=files).parent

    ran = over(root, "worker").execute_sync(
        "noisy.h --stdin-json < /in/given.json", files={"given.json": json.dumps({"give": given})}
    )

    assert (ran.stdout, ran.stderr, ran.exit_code) == (printed, "", 0)


def test_built_in_tools_print_data(write_skill: WriteSkill, work: Path, engine: EngineKind) -> None:
    root = write_skill().parent
    (work / "sub").mkdir()
    (work / "empty.txt").touch()
    (work / "a.json").write_text('{"n": 1}\n')
    (work / "sub" / "b.txt").write_text("one\ntwo\n")
    tool = over(root, engine, builtins=True)

    def printed(script: str) -> str:
        ran = tool.execute_sync(script)
        assert (ran.stderr, ran.exit_code) == ("", 0)
        return ran.stdout

    assert printed("pouch.read --file_path a.json | jq .n") == "1\n"
    assert printed("pouch.read --file_path sub/b.txt") == "one\ntwo\n"
    assert printed("pouch.read --file_path empty.txt") == ""
    assert printed("pouch.ls") == "sub\na.json\nempty.txt\n"
    assert printed("pouch.ls --path sub") == "b.txt\n"
    assert printed("pouch.glob --pattern '**/*.txt'") == "empty.txt\nsub/b.txt\n"
    assert printed("pouch.glob --pattern '*.none'") == ""
    assert printed("pouch.grep --pattern two") == "sub/b.txt:2:two\n"
    assert printed("pouch.grep --pattern nowhere") == ""
    assert printed("pouch.bash --command 'echo hi; cd sub'") == "hi\n"
    assert json.loads(printed("pouch.write --file_path c.txt --content abc")) == {
        "path": "c.txt",
        "bytes": 3,
        "created": True,
        "size": 3,
    }
    edited = "pouch.edit --file_path c.txt --old_string b --new_string B | jq .replacements"
    assert printed(edited) == "1\n"
    assert printed("pouch.read --file_path c.txt") == "aBc\n"


def test_a_built_in_tool_that_shows_a_part_says_where_to_go_on(
    write_skill: WriteSkill, work: Path
) -> None:
    root = write_skill().parent
    (work / "long.txt").write_text("".join(f"{n}\n" for n in range(10)))

    tool = over(root, "worker", builtins=True)

    ran = tool.execute_sync("pouch.read --file_path long.txt --limit 2")

    assert ran.stdout == "0\n1\n"
    assert ran.stderr == "note: pouch.read: this is a part of it; go on with --offset 2\n"


def test_tools_that_find_skills_print_data(write_skill: WriteSkill) -> None:
    root = write_skill("hello", body="Say hello.\n", files={"notes.txt": "one\n"}).parent
    tool = over(root, "worker", disclosure=True)

    ran = tool.execute_sync(
        "pouch.read_skill_file --skill hello --path notes.txt\n"
        "pouch.activate_skill --name hello | jq -r .skill\n"
        "pouch.search_tools --query hello | jq -c .skills\n"
    )

    assert (ran.stdout, ran.stderr) == ('one\nhello\n["hello"]\n', "")


def test_a_tool_without_a_program_says_that_its_skill_is_to_be_loaded(
    write_skill: WriteSkill, engine: EngineKind
) -> None:
    tools = [{"name": "think", "description": "Think."}]
    front = f"name: mind\ndescription: Thinks.\ntools: {json.dumps(tools)}\n"
    tool = over(write_skill("mind", front=front).parent, engine)

    ran = tool.execute_sync("mind.think")

    assert ran.exit_code == 1
    assert "load the skill 'mind' and follow its instructions" in ran.stderr
