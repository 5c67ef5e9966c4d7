from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kitbag.executor import ToolExecutor
from kitbag.house import House
from kitbag.results import ToolResult
from kitbag.workspace_tools.running import built_in_tools

Use = Callable[..., ToolResult]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def use(workspace: Path) -> Use:
    """Call Kitbag's own tools in `workspace`, all in one session."""
    executor = ToolExecutor(built_in_tools(), workspace=workspace, house=House(journal=False))

    def run(name: str, /, **arguments: Any) -> ToolResult:
        return executor.execute_sync(name, arguments)

    return run
