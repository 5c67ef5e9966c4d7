"""Tools over MCP: what a client is shown, and what it is answered."""

import base64
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError

from skillpouch import SkillManager, tool
from skillpouch.servers.mcp import McpLimits, McpServer
from skillpouch.tools import Tool
from tests.conftest import WriteSkill
from tests.servers.mcp.conftest import NewManager
from tests.servers.mcp.serving import ERAS, Era, listening

pytestmark = pytest.mark.slow

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_answers_text_and_value(new_manager: NewManager, era: Era) -> None:
    async with listening(McpServer(new_manager())) as url, Client(url, mode=era) as client:
        result = await client.call_tool("demo__echo", {"text": "hi"})

    assert [block.model_dump(exclude_none=True) for block in result.content] == [
        {"type": "text", "text": '{"said": "hi"}'}
    ]
    assert (result.structured_content, result.is_error) == ({"said": "hi"}, False)


@pytest.mark.parametrize("era", ERAS)
async def test_tools_are_listed_in_the_order_of_their_names_with_schemas_and_hints(
    new_manager: NewManager, era: Era
) -> None:
    async with listening(McpServer(new_manager())) as url, Client(url, mode=era) as client:
        listed = (await client.list_tools()).tools

    assert [each.name for each in listed] == [
        "demo__echo",
        "demo__fail",
        "demo__makes",
        "demo__slow",
    ]
    echo = listed[0].model_dump(exclude_none=True)
    assert echo["title"] == "demo.echo"
    assert echo["meta"] == {"skillpouch/id": "demo.echo"}
    assert echo["input_schema"]["type"] == "object"
    assert echo["annotations"] == {
        "read_only_hint": False,
        "destructive_hint": False,
        "open_world_hint": False,
    }


@pytest.mark.parametrize(
    ("effects", "hints"),
    [
        (("read",), (True, False, False)),
        (("read", "network"), (True, False, True)),
        (("write", "destructive"), (False, True, False)),
    ],
)
async def test_hints_follow_from_effects(
    new_manager: NewManager, effects: Any, hints: tuple[bool, ...]
) -> None:
    @tool(name="it", effects=effects)
    def it() -> str:
        return ""

    async with listening(McpServer(new_manager(), tools=[it])) as url, Client(url) as client:
        listed = {each.name: each for each in (await client.list_tools()).tools}

    said = listed["it"].annotations
    assert said is not None
    assert (said.read_only_hint, said.destructive_hint, said.open_world_hint) == hints


async def test_pages_hold_every_tool_once(new_manager: NewManager) -> None:
    server = McpServer(new_manager(), limits=McpLimits(page_size=3))
    names: list[str] = []
    async with listening(server) as url, Client(url) as client:
        page = await client.list_tools()
        names += [each.name for each in page.tools]
        assert page.next_cursor is not None
        page = await client.list_tools(cursor=page.next_cursor)
        names += [each.name for each in page.tools]

    assert (names, page.next_cursor) == (
        ["demo__echo", "demo__fail", "demo__makes", "demo__slow"],
        None,
    )


async def test_a_cursor_that_nobody_gave_is_an_invalid_parameter(new_manager: NewManager) -> None:
    async with listening(McpServer(new_manager())) as url, Client(url) as client:
        with pytest.raises(MCPError) as caught:
            await client.list_tools(cursor="no cursor")

    assert caught.value.code == -32602


@pytest.mark.parametrize("era", ERAS)
async def test_a_tool_that_fails_is_a_result_that_says_so(
    new_manager: NewManager, era: Era
) -> None:
    async with listening(McpServer(new_manager())) as url, Client(url, mode=era) as client:
        result = await client.call_tool("demo__fail", {})

    assert result.is_error
    assert "it broke" in text_of(result)
    assert (result.meta or {})["skillpouch/error"] == "failed"


@pytest.mark.parametrize("era", ERAS)
async def test_arguments_that_do_not_fit_are_a_result_that_a_model_can_act_on(
    new_manager: NewManager, era: Era
) -> None:
    async with listening(McpServer(new_manager())) as url, Client(url, mode=era) as client:
        result = await client.call_tool("demo__echo", {"txt": "hi"})

    assert result.is_error
    assert (result.meta or {})["skillpouch/error"] == "invalid_arguments"
    assert "text" in text_of(result)


@pytest.mark.parametrize("era", ERAS)
async def test_a_tool_that_there_is_not_is_an_error_of_the_protocol(
    new_manager: NewManager, era: Era
) -> None:
    async with listening(McpServer(new_manager())) as url, Client(url, mode=era) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("demo__ecko", {})

    assert caught.value.code == -32602
    assert "did you mean 'demo__echo'" in caught.value.message


async def test_a_call_that_waits_for_approval_says_what_would_allow_it(
    write_skill: WriteSkill, workspace: Path, tmp_path: Path
) -> None:
    front = "name: keyed\ndescription: d\nmetadata: {skillpouch: {requires: {env: [API_KEY]}}}\n"
    write_skill("keyed", front, files={"scripts/go.py": "print(1)\n"})
    manager = SkillManager(tmp_path / "skills", workspace=workspace)

    async with listening(McpServer(manager)) as url, Client(url) as client:
        result = await client.call_tool("keyed__go", {})

    assert not result.is_error
    assert "it needs the secret API_KEY" in text_of(result)
    assert "Only the user can allow it: tell them to run `skillpouch approve q" in text_of(result)
    assert "skillpouch trust" not in text_of(result)


@pytest.mark.promise("fs-5")
async def test_what_a_call_did_to_files_is_told_and_what_it_deleted_is_not_linked(
    new_manager: NewManager,
    write_skill: WriteSkill,
    workspace: Path,
) -> None:
    script = "mv old.txt new.txt; mkdir .claude; echo > .claude/settings.json\n"
    write_skill("changes", files={"scripts/go.sh": script})
    (workspace / "old.txt").write_text("old")

    async with listening(McpServer(new_manager())) as url, Client(url) as client:
        result = await client.call_tool("changes__go", {})

    assert result.meta is not None
    assert result.meta["skillpouch/files"] == [
        {"path": ".claude/settings.json", "change": "created"},
        {"path": "new.txt", "change": "created"},
        {"path": "old.txt", "change": "deleted"},
    ]
    assert result.meta["skillpouch/run_later"] == [".claude"]
    links = [block.name for block in result.content if block.type == "resource_link"]
    assert links == [".claude/settings.json", "new.txt"]


async def test_how_a_call_wrote_and_exactly_what_it_changed_is_for_the_client(
    new_manager: NewManager,
    write_skill: WriteSkill,
    workspace: Path,
) -> None:
    write_skill("changes", files={"scripts/go.sh": "chmod 600 old.txt; rm gone.txt\n"})
    (workspace / "old.txt").write_text("old")
    (workspace / "gone.txt").write_text("gone")
    manager = new_manager(writes="undoable")

    async with listening(McpServer(manager)) as url, Client(url) as client:
        result = await client.call_tool("changes__go", {})

    assert result.meta is not None
    assert result.meta["skillpouch/writes"] == "undoable"
    assert [(each["path"], each["change"]) for each in result.meta["skillpouch/changes"]] == [
        ("gone.txt", "deleted"),
        ("old.txt", "mode"),
    ]
    await manager.aundo(result.meta["skillpouch/call_id"])
    assert (workspace / "gone.txt").read_text() == "gone"


@pytest.mark.promise("undo-5")
async def test_a_model_undoes_a_call_only_where_the_owner_serves_the_tool_for_it(
    new_manager: NewManager, write_skill: WriteSkill, workspace: Path
) -> None:
    write_skill("changes", files={"scripts/go.sh": "rm gone.txt\n"})
    (workspace / "gone.txt").write_text("gone")

    async with listening(McpServer(new_manager(writes="undoable"))) as url, Client(url) as client:
        await client.call_tool("changes__go", {})
        without = [tool.name for tool in (await client.list_tools()).tools]
    manager = new_manager(writes="undoable", undo_tools=True)
    async with listening(McpServer(manager)) as url, Client(url) as client:
        having = [tool.name for tool in (await client.list_tools()).tools]
        result = await client.call_tool("skillpouch__undo", {})

    assert {*having} - {*without} == {"skillpouch__undo", "skillpouch__diff"}
    assert "undid call 1 of changes.go: 1 change" in text_of(result)
    assert (workspace / "gone.txt").read_text() == "gone"


@pytest.mark.parametrize("era", ERAS)
async def test_a_file_that_a_call_made_is_a_link_that_can_be_read(
    new_manager: NewManager, era: Era
) -> None:
    async with listening(McpServer(new_manager())) as url, Client(url, mode=era) as client:
        result = await client.call_tool("demo__makes", {})
        link = result.content[1]
        assert link.type == "resource_link"
        read = (await client.read_resource(link.uri)).contents[0]

    assert (link.uri, link.name, link.mime_type, link.size) == (
        "workspace:///made.txt",
        "made.txt",
        "text/plain",
        3,
    )
    assert read.model_dump(exclude_none=True) == {
        "uri": "workspace:///made.txt",
        "mime_type": "text/plain",
        "text": "new",
    }


@pytest.mark.parametrize("era", ERAS)
async def test_a_file_of_the_workspace_that_no_call_made_cannot_be_read(
    new_manager: NewManager, workspace: Path, era: Era
) -> None:
    (workspace / "private.txt").write_text("mine")

    async with listening(McpServer(new_manager())) as url, Client(url, mode=era) as client:
        for uri in ("workspace:///private.txt", f"file://{workspace}/private.txt"):
            with pytest.raises(MCPError):
                await client.read_resource(uri)


@pytest.mark.parametrize("era", ERAS)
async def test_an_image_is_shown_as_one(new_manager: NewManager, workspace: Path, era: Era) -> None:
    (workspace / "dot.png").write_bytes(PNG)
    server = McpServer(new_manager(builtins=True))

    async with listening(server) as url, Client(url, mode=era) as client:
        result = await client.call_tool("read", {"file_path": "dot.png"})

    images = [block for block in result.content if block.type == "image"]
    assert [(image.mime_type, base64.b64decode(image.data)) for image in images] == [
        ("image/png", PNG)
    ]


def promising(schema: dict[str, Any], answer: Any) -> Tool:
    """Return a tool that declares one thing and gives another, or the same."""
    from dataclasses import replace

    @tool(name="promise")
    def promise() -> Any:
        return answer

    return replace(promise, output_schema=schema)


_COUNT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.mark.parametrize("era", ERAS)
async def test_an_answer_that_keeps_its_promise_is_its_value(
    new_manager: NewManager, era: Era
) -> None:
    server = McpServer(new_manager(), tools=[promising(_COUNT, {"n": 3})])

    async with listening(server) as url, Client(url, mode=era) as client:
        listed = {each.name: each for each in (await client.list_tools()).tools}
        result = await client.call_tool("promise", {})

    assert listed["promise"].output_schema == _COUNT
    assert (result.is_error, result.structured_content) == (False, {"n": 3})


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("answer", [{"n": "three"}, "text"])
async def test_an_answer_that_breaks_its_promise_is_a_failure(
    new_manager: NewManager, era: Era, answer: Any
) -> None:
    server = McpServer(new_manager(), tools=[promising(_COUNT, answer)])

    async with listening(server) as url, Client(url, mode=era) as client:
        result = await client.call_tool("promise", {})

    assert result.is_error
    assert (result.meta or {})["skillpouch/error"] == "output_invalid"


async def test_a_value_that_is_no_object_is_told_to_clients_that_know_such(
    new_manager: NewManager,
) -> None:
    server = McpServer(new_manager(), tools=[promising({"type": "array"}, [1, 2])])

    async with listening(server) as url:
        async with Client(url, mode="auto") as client:
            new = (await client.list_tools()).tools[-1], await client.call_tool("promise", {})
        async with Client(url, mode="legacy") as client:
            old = (await client.list_tools()).tools[-1], await client.call_tool("promise", {})

    assert (new[0].output_schema, new[1].structured_content) == ({"type": "array"}, [1, 2])
    assert (old[0].output_schema, old[1].structured_content) == (None, None)
    assert text_of(old[1]) == "[1, 2]"


async def test_only_tools_that_were_named_are_offered_and_called(new_manager: NewManager) -> None:
    @tool
    def only() -> str:
        """Be the only one."""
        return "me"

    server = McpServer(new_manager(), tools=[only], only_tools=True)

    async with listening(server) as url, Client(url) as client:
        names = [each.name for each in (await client.list_tools()).tools]
        result = await client.call_tool("only", {})
        with pytest.raises(MCPError):
            await client.call_tool("demo__echo", {"text": "hi"})

    assert (names, text_of(result)) == (["only"], "me")


def text_of(result: Any) -> str:
    return "\n".join(block.text for block in result.content if block.type == "text")


LONG = "for number in range(3000): print('a line of text, and which one it is:', number)\n"


@pytest.mark.promise("mcp-10")
async def test_over_http_long_output_is_at_an_address_that_can_be_read(
    write_skill: WriteSkill, workspace: Path, tmp_path: Path
) -> None:
    write_skill(files={"scripts/long.py": LONG})
    manager = SkillManager(tmp_path / "skills", workspace=workspace)

    async with listening(McpServer(manager)) as url, Client(url) as client:
        result = await client.call_tool("demo__long", {})
        text = result.content[0].text  # type: ignore[union-attr]
        address = text.rpartition("[all of it: ")[2].rstrip("]")
        whole = await client.read_resource(address)

    assert str(tmp_path) not in text
    assert address.startswith("workspace:///.skillpouch/output/")
    assert whole.contents[0].text.count("\n") == 3000  # type: ignore[union-attr]


@pytest.mark.promise("mcp-10")
async def test_over_http_why_a_watched_tool_failed_names_no_copy_of_its_skill(
    write_skill: WriteSkill, workspace: Path, tmp_path: Path
) -> None:
    write_skill(files={"scripts/fails.py": "def handler(args):\n    raise ValueError('why')\n"})

    manager = SkillManager(tmp_path / "skills", workspace=workspace)

    async with listening(McpServer(manager)) as url, Client(url) as client:
        result = await client.call_tool("demo__fails", {})

    assert "skill://demo/scripts/fails.py" in text_of(result)
    assert "skillpouch-copies" not in text_of(result)


@pytest.mark.promise("mcp-10")
async def test_over_http_nothing_that_skillpouch_says_names_a_folder_of_the_machine(
    write_skill: WriteSkill, workspace: Path, tmp_path: Path
) -> None:
    asks = f"metadata: {{skillpouch: {{read: [{tmp_path}/data/in]}}}}\n"
    front = f"name: asks\ndescription: Asks.\n{asks}"
    write_skill("asks", front, files={"scripts/go.py": "print(1)\n"})
    (tmp_path / "data/in").mkdir(parents=True)
    manager = SkillManager(
        tmp_path / "skills", workspace=workspace, builtins=True, define_tools=True
    )
    arguments = {"name": "count", "description": "Counts.", "code": "return 1", "persistent": True}

    async with listening(McpServer(manager)) as url, Client(url) as client:
        said = [
            await client.call_tool("asks__go", {}),
            await client.call_tool("read", {"path": f"{workspace}/../x"}),
            await client.call_tool("define_tool", arguments),
            await client.call_tool("remove_tool", {"name": "count"}),
        ]

    for result in said:
        assert str(tmp_path) not in result.model_dump_json()
    assert [result.is_error for result in said] == [False, True, False, False]
    assert "waits for the user's approval" in text_of(said[0])
