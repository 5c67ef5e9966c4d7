from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillpouch.builtins.workspace.running import built_in_tools
from skillpouch.executor import ToolExecutor
from skillpouch.results import ToolResult

Use = Callable[..., ToolResult]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def use(workspace: Path) -> Use:
    """Call Skillpouch's own tools in `workspace`, all in one session."""
    executor = ToolExecutor(built_in_tools(), workspace=workspace, journal=False)

    def run(name: str, /, **arguments: Any) -> ToolResult:
        return executor.execute_sync(name, arguments)

    return run
