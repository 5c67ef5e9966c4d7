"""`skillpouch serve mcp` as people type it: its options, and what hosts are told to write."""

import asyncio
import json
import ssl
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from tests.conftest import WriteSkill
from tests.servers.mcp.conftest import ECHO
from tests.servers.mcp.serving import PATIENCE_SECONDS, arguments_for, over_stdio
from tests.servers.mcp.test_tools import text_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def skillpouch(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "skillpouch", *words],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.usefixtures("new_manager")
async def test_the_script_tool_alone_reaches_every_other_tool(
    tmp_path: Path, workspace: Path
) -> None:
    more = ("--only-script-tool",)
    words = arguments_for(tmp_path / "skills", workspace=workspace, more=more)
    async with over_stdio(*words, era="auto") as client:
        tools = (await client.list_tools()).tools
        result = await client.call_tool(
            "script", {"commands": 'for n in 1 2; do demo.echo --text "n$n" | jq -r .said; done'}
        )

    assert [tool.name for tool in tools] == ["script"]
    assert "demo.echo" in (tools[0].description or "")
    assert text_of(result).split() == ["n1", "n2"]


@pytest.mark.usefixtures("new_manager")
async def test_a_model_makes_a_tool_and_calls_it(tmp_path: Path, workspace: Path) -> None:
    words = arguments_for(tmp_path / "skills", workspace=workspace, more=("--define-tools",))
    tool = {"name": "twice", "description": "Twice.", "code": "return args['n'] * 2"}
    async with over_stdio(*words, era="auto") as client:
        await client.call_tool("define_tool", tool | {"parameters": '{"n": {"type": "integer"}}'})
        listed = [each.name for each in (await client.list_tools()).tools]
        result = await client.call_tool("twice", {"n": 21})

    assert "twice" in listed
    assert text_of(result) == "42"


@pytest.mark.usefixtures("new_manager")
async def test_nobody_makes_tools_unless_it_was_asked_for(tmp_path: Path, workspace: Path) -> None:
    words = arguments_for(tmp_path / "skills", workspace=workspace)
    async with over_stdio(*words, era="auto") as client:
        listed = [each.name for each in (await client.list_tools()).tools]

    assert "define_tool" not in listed


def test_hosts_are_told_absolute_paths(write_skill: WriteSkill, tmp_path: Path) -> None:
    write_skill()

    ran = skillpouch("serve", "mcp", "--install", "--root", "skills", cwd=tmp_path)

    told = json.loads(ran.stdout)
    entry = told["claude_desktop"]["content"]["mcpServers"]["skillpouch"]
    assert Path(entry["command"]).is_absolute()
    assert entry["args"][-4:] == ["--root", str(tmp_path / "skills"), "--workspace", str(tmp_path)]
    assert set(told) >= {"claude_desktop", "claude_code", "cursor", "vscode", "codex", "gemini"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--http", "nowhere"), "there is no port"),
        (("--http", "0.0.0.0:0"), "add --token-file FILE"),
        (("--http", "127.0.0.1:0", "--tls-cert", "skills/demo/SKILL.md"), "certificate"),
        (("--http", "127.0.0.1:0", "--token-file", "skills/demo/SKILL.md"), "cannot be used"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_served(
    write_skill: WriteSkill, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    write_skill()

    ran = skillpouch("serve", "mcp", "--root", "skills", *words, cwd=tmp_path)

    assert ran.returncode == 2
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


async def test_over_https_with_json_logs(
    write_skill: WriteSkill, tmp_path: Path, workspace: Path
) -> None:
    write_skill(files={"scripts/echo.py": ECHO})
    certificate = certificate_in(tmp_path)
    more = ("--http", "127.0.0.1:0", "--tls-cert", str(certificate), "--log", "json")
    words = arguments_for(tmp_path / "skills", workspace=workspace, more=more)
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, stderr=asyncio.subprocess.PIPE
    )
    try:
        assert process.stderr is not None
        line = await asyncio.wait_for(process.stderr.readline(), PATIENCE_SECONDS)
        ready = json.loads(line)
        url = ready["message"].rpartition(" ")[2]
        trusting = ssl.create_default_context(cafile=str(certificate))
        async with httpx2.AsyncClient(verify=trusting) as http:
            answer = await http.get(url.replace("/mcp", "/readyz"))
    finally:
        process.terminate()
        code = await asyncio.wait_for(process.wait(), PATIENCE_SECONDS)

    assert (ready["level"], url.partition("127")[0], answer.text, code) == (
        "info",
        "https://",
        "ready\n",
        0,
    )


def certificate_in(folder: Path) -> Path:
    """Make a certificate for loopback that nobody else trusts."""
    file = folder / "both.pem"
    names = "subjectAltName=IP:127.0.0.1,DNS:localhost"
    words = f"req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext {names}"
    written = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "certificate.pem")]
    subprocess.run(["openssl", *words.split(), *written], check=True, capture_output=True)
    both = (folder / "certificate.pem").read_text() + (folder / "key.pem").read_text()
    file.write_text(both)
    return file
