import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from skillpouch import SkillManager
from skillpouch.mcp_client import parse_user_mcp
from skillpouch.policy.project import McpEntry

THEIRS = Path(__file__).with_name("their_server.py")
NewEntry = Callable[..., McpEntry]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def manager(tmp_path: Path, workspace: Path) -> SkillManager:
    (tmp_path / "skills").mkdir()
    return SkillManager(tmp_path / "skills", workspace=workspace)


def toml_for(name: str = "theirs", **more: str) -> str:
    """Return the table of a server that is started here; `more` are lines of it."""
    lines = {
        "name": f'"{name}"',
        "command": f'["{sys.executable}", "{THEIRS}"]',
        "read": f'["{THEIRS.parent}"]',
        **more,
    }
    return "[[mcp]]\n" + "".join(f"{key} = {value}\n" for key, value in lines.items())


@pytest.fixture
def new_entry() -> NewEntry:
    def new(name: str = "theirs", **more: str) -> McpEntry:
        return parse_user_mcp(toml_for(name, **more).encode())[0]

    return new
