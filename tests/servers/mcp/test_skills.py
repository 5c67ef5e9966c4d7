"""Skills over MCP: prompts, resources, and skills as wholes with the hash of every file."""

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import Request, RequestParams, Result

from skillpouch import SkillManager
from skillpouch.servers.mcp import McpLimits, McpServer
from tests.conftest import WriteSkill
from tests.servers.mcp.conftest import NewManager
from tests.servers.mcp.serving import ERAS, Era, arguments_for, listening, over_stdio

pytestmark = pytest.mark.slow


class AnyParams(RequestParams, extra="allow"):
    pass


class AnyResult(Result, extra="allow"):
    pass


async def ask(client: Client, method: str, **params: Any) -> dict[str, Any]:
    request: Request[Any, Any] = Request(method=method, params=AnyParams(**params))
    result = await client.session.send_request(request, AnyResult)
    return result.model_dump(by_alias=True, exclude_none=True)


@pytest.mark.parametrize("era", ERAS)
async def test_a_skill_is_a_prompt(new_manager: NewManager, era: Era) -> None:
    async with listening(McpServer(new_manager())) as url, Client(url, mode=era) as client:
        listed = (await client.list_prompts()).prompts
        got = await client.get_prompt("demo", {"arguments": "the words"})

    assert [(prompt.name, prompt.description) for prompt in listed] == [("demo", "Does demo.")]
    content = got.messages[0].content
    assert content.type == "text"
    assert "Do it." in content.text
    assert "ARGUMENTS: the words" in content.text


@pytest.mark.promise("mcp-10")
async def test_a_client_elsewhere_is_not_told_where_a_skill_is(
    write_skill: WriteSkill, tmp_path: Path, workspace: Path
) -> None:
    write_skill("placed", body="Run {baseDir}/scripts/go.sh, or ${CLAUDE_SKILL_DIR}/x.\n")
    manager = SkillManager(tmp_path / "skills", workspace=workspace)
    async with listening(McpServer(manager)) as url, Client(url) as client:
        got = await client.get_prompt("placed")
        read = await client.read_resource("skill://placed/SKILL.md")
    words = arguments_for(tmp_path / "skills", workspace=workspace)
    async with over_stdio(*words, era="auto") as beside:
        local = await beside.get_prompt("placed")

    text, local_text = (each.messages[0].content.text for each in (got, local))  # type: ignore[union-attr]
    assert str(tmp_path) not in text
    assert "Base directory for this skill: skill://placed\n" in text
    assert "Run skill://placed/scripts/go.sh, or skill://placed/x." in text
    assert "{baseDir}" in read.contents[0].text  # type: ignore[union-attr]
    assert f"Base directory for this skill: {tmp_path}/skills/placed\n" in local_text


async def test_a_skill_that_is_not_for_people_is_no_prompt(
    write_skill: WriteSkill, tmp_path: Path, workspace: Path
) -> None:
    write_skill("shown")
    write_skill("inner", "name: inner\ndescription: d\nuser-invocable: false\n")
    manager = SkillManager(tmp_path / "skills", workspace=workspace)

    async with listening(McpServer(manager)) as url, Client(url) as client:
        listed = (await client.list_prompts()).prompts
        with pytest.raises(MCPError):
            await client.get_prompt("inner")

    assert [prompt.name for prompt in listed] == ["shown"]


@pytest.mark.parametrize("era", ERAS)
async def test_the_files_of_a_skill_are_resources(new_manager: NewManager, era: Era) -> None:
    async with listening(McpServer(new_manager())) as url, Client(url, mode=era) as client:
        listed = {each.uri: each for each in (await client.list_resources()).resources}
        notes = (await client.read_resource("skill://demo/references/notes.md")).contents[0]
        picture = (await client.read_resource("skill://demo/picture.bin")).contents[0]

    assert list(listed) == [
        "skill://demo/SKILL.md",
        "skill://demo/picture.bin",
        "skill://demo/references/notes.md",
        "skill://demo/scripts/echo.py",
        "skill://demo/scripts/fail.py",
        "skill://demo/scripts/makes.py",
        "skill://demo/scripts/slow.py",
    ]
    first = listed["skill://demo/SKILL.md"]
    assert (first.name, first.description, first.mime_type) == (
        "demo",
        "Does demo.",
        "text/markdown",
    )
    assert notes.model_dump(exclude_none=True)["text"] == "# Notes\n"
    assert picture.model_dump(exclude_none=True)["blob"] == "/wA="


@pytest.mark.promise("mcp-3")
@pytest.mark.parametrize("era", ERAS)
async def test_nothing_but_listed_files_of_skills_is_read(
    new_manager: NewManager, tmp_path: Path, era: Era
) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    home = tmp_path / "skills/demo"
    (home / ".env").write_text("KEY=secret")
    (home / "out.txt").symlink_to(tmp_path / "secret.txt")

    async with listening(McpServer(new_manager())) as url, Client(url, mode=era) as client:
        for uri in (
            "skill://demo/.env",
            "skill://demo/out.txt",
            "skill://demo/../../secret.txt",
            "skill://demo/%2e%2e/%2e%2e/secret.txt",
            "skill://demo/references/../.env",
            f"file://{tmp_path}/secret.txt",
            "skill://demo",
            "skill://nobody/SKILL.md",
        ):
            with pytest.raises(MCPError, match="no resource"):
                await client.read_resource(uri)


@pytest.mark.parametrize("era", ERAS)
async def test_a_skill_is_told_with_its_frontmatter_and_the_hash_of_every_file(
    new_manager: NewManager, tmp_path: Path, era: Era
) -> None:
    home = tmp_path / "skills/demo"
    async with listening(McpServer(new_manager())) as url, Client(url, mode=era) as client:
        listed = await ask(client, "skills/list")
        got = await ask(client, "skills/get", uri="skill://demo/SKILL.md")

    files = sorted(path for path in home.rglob("*") if path.is_file())
    assert got["skill"] == {
        "uri": "skill://demo/SKILL.md",
        "frontmatter": {"name": "demo", "description": "Does demo."},
        "resources": [
            {
                "uri": f"skill://demo/{path.relative_to(home).as_posix()}",
                "digest": f"sha256:{sha256(path.read_bytes()).hexdigest()}",
                "size": path.stat().st_size,
            }
            for path in files
        ],
    }
    assert listed["skills"] == [got["skill"]]
    assert (listed["ttlMs"], listed["cacheScope"]) == (0, "private")


@pytest.mark.parametrize("uri", ["skill://nobody/SKILL.md", "skill://demo", "skill://demo/x.md"])
async def test_what_is_no_skill_is_an_invalid_parameter(new_manager: NewManager, uri: str) -> None:
    async with listening(McpServer(new_manager())) as url, Client(url) as client:
        with pytest.raises(MCPError) as caught:
            await ask(client, "skills/get", uri=uri)

    assert caught.value.code == -32602


async def test_a_skill_of_a_plugin_lies_below_its_plugin_and_pages_hold_every_skill(
    workspace: Path,
) -> None:
    examples = Path(__file__).parents[3] / "examples/skills"
    manager = SkillManager(examples, workspace=workspace)
    found: list[str] = []
    server = McpServer(manager, limits=McpLimits(page_size=4))
    async with listening(server) as url, Client(url) as client:
        page = await ask(client, "skills/list")
        while True:
            found += [skill["uri"] for skill in page["skills"]]
            if "nextCursor" not in page:
                break
            page = await ask(client, "skills/list", cursor=page["nextCursor"])
        unlisted = await ask(client, "skills/get", uri="skill://weather/SKILL.md")

    # Those whose metadata holds more than texts would make some hosts refuse the whole list.
    assert {skill.name for skill in manager.list_skills()} - set(map(name_of, found)) == {
        "pdf-extractor",
        "weather",
    }
    assert len(found) == len(set(found))
    assert found[0] == "skill://acme/csv-report/SKILL.md"
    assert unlisted["skill"]["frontmatter"]["name"] == "weather"


def name_of(uri: str) -> str:
    return uri.removeprefix("skill://").removesuffix("/SKILL.md").replace("/", ":")


async def test_a_skill_with_more_files_than_hosts_accept_is_not_told(
    write_skill: WriteSkill, tmp_path: Path, workspace: Path
) -> None:
    write_skill("small")
    write_skill("large", files={f"data/{number}.txt": "x" for number in range(513)})
    manager = SkillManager(tmp_path / "skills", workspace=workspace)

    async with listening(McpServer(manager)) as url, Client(url) as client:
        listed = await ask(client, "skills/list")

    assert [skill["uri"] for skill in listed["skills"]] == ["skill://small/SKILL.md"]
