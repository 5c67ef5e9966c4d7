"""The user's mcp.toml, and what a project may say about MCP servers."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillpouch.environment import config_directory
from skillpouch.errors import PolicyFileError
from skillpouch.mcp_client import parse_user_mcp, read_user_mcp
from skillpouch.needs import Need
from skillpouch.policy.loading import parse_project
from skillpouch.policy.project import McpAddress, McpEntry, McpProgram

pytestmark = pytest.mark.slow

BOTH = """
[[mcp]]
name = "files"
command = ["/usr/bin/serve-files", "--stdio"]
env = ["FILES_TOKEN"]
hosts = ["api.example.com"]
read = ["/srv/files"]
tools = ["find"]
timeout_seconds = 5

[[mcp]]
name = "search"
url = "https://search.example.com/mcp"
headers = { Authorization = "Bearer ${env:SEARCH_TOKEN}" }
"""


def test_a_program_names_its_profiles() -> None:
    text = """
[[mcp]]
name = "browser"
command = ["/usr/bin/browse"]
local-sockets = true
loopback = true
memory = "4 GiB"
devices = ["gpu"]
"""

    (entry,) = parse_user_mcp(text.encode())

    assert entry.runs == McpProgram(
        command=("/usr/bin/browse",),
        local_sockets=True,
        loopback=True,
        memory="4GiB",
        devices=("gpu",),
    )
    assert entry.granted == (
        Need(kind="local-sockets"),
        Need(kind="loopback"),
        Need(kind="memory", value="4GiB"),
        Need(kind="devices", value="gpu"),
    )


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('memory = "lots"', "must be a size such as 4GiB, not 'lots'"),
        ('devices = ["tpu"]', "no such device can be granted: 'tpu'"),
        ('local-sockets = "yes"', "must be true or false, not 'yes'"),
        ('url = "https://x.example.com"', "needs either `command`"),
    ],
)
def test_a_profile_that_is_none_is_reported(line: str, problem: str) -> None:
    text = f'[[mcp]]\nname = "a"\ncommand = ["/usr/bin/a"]\n{line}\n'

    with pytest.raises(PolicyFileError, match=re.escape(problem)):
        parse_user_mcp(text.encode())


def test_a_program_and_an_address_are_read() -> None:
    files, search = parse_user_mcp(BOTH.encode())

    assert files == McpEntry(
        name="files",
        runs=McpProgram(
            command=("/usr/bin/serve-files", "--stdio"),
            env=("FILES_TOKEN",),
            hosts=("api.example.com",),
            read=("/srv/files",),
        ),
        tools=("find",),
        timeout_seconds=5.0,
    )
    assert search.runs == McpAddress(
        url="https://search.example.com/mcp",
        headers={"Authorization": "Bearer ${env:SEARCH_TOKEN}"},
    )
    assert search.granted == (
        Need(kind="host", value="search.example.com"),
        Need(kind="secret", value="SEARCH_TOKEN"),
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('name = "a"', "either `command`"),
        ('name = "a"\ncommand = ["x"]\nurl = "https://x.example"', "either `command`"),
        ('command = ["x"]', "a short word"),
        ('name = "A B"\ncommand = ["x"]', "a short word"),
        ('name = "a"\nurl = "ftp://x.example"', "not an http or https address"),
        ('name = "a"\nurl = "https://me:secret@x.example"', "not an http or https address"),
        ('name = "a"\ncommand = ["x"]\nread = ["relative"]', "absolute"),
        ('name = "a"\ncommand = ["x"]\ntimeout_seconds = 0', "above zero"),
        ('name = "a"\ncommand = ["x"]\ncomand = 1', "did you mean 'command'"),
        ('name = "a"\ncommand = ["x"]\n[[mcp]]\nname = "a"\ncommand = ["y"]', "appears twice"),
    ],
)
def test_what_is_wrong_is_said(text: str, reason: str) -> None:
    with pytest.raises(PolicyFileError, match=reason):
        parse_user_mcp(f"[[mcp]]\n{text}\n".encode())


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_entries_or_an_error(data: bytes) -> None:
    try:
        assert isinstance(parse_user_mcp(b"[[mcp]]\n" + data), tuple)
    except PolicyFileError:
        return


@pytest.mark.promise("mcp-7")
def test_a_project_only_asks_for_servers(tmp_path: Path) -> None:
    project = parse_project(BOTH.encode())
    (tmp_path / "skillpouch.toml").write_text(BOTH)

    ran = subprocess.run(
        [sys.executable, "-m", "skillpouch", "mcp", "--json"],
        cwd=tmp_path,
        capture_output=True,
        check=True,
    )

    told = json.loads(ran.stdout)
    assert [entry.name for entry in project.mcp] == ["files", "search"]
    assert read_user_mcp() == ()
    assert (told["servers"], [each["name"] for each in told["requested"]]) == (
        [],
        ["files", "search"],
    )


def test_a_file_that_another_user_could_have_written_is_refused() -> None:
    folder = config_directory()
    assert folder is not None
    folder.mkdir(parents=True)
    (folder / "mcp.toml").write_text(BOTH)
    (folder / "mcp.toml").chmod(0o666)

    with pytest.raises(PolicyFileError, match="everybody can write it"):
        read_user_mcp()
