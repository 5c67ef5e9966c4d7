"""A handler gives the same, whether its Node waited for it or was started for it."""

import re
from typing import Any

import pytest

from skillpouch import Limits, SkillManager, ToolResult
from tests.backends.node.cases import FS, SAME, handler
from tests.backends.node.conftest import NewManager

pytestmark = pytest.mark.slow

_PROCESS_ID = re.compile(r"\(node:\d+\)")


def facts(result: ToolResult) -> dict[str, Any]:
    """What a caller sees of a call, but for the time it took and the number of its process."""
    return {
        "outcome": result.outcome,
        "exit_code": result.exit_code,
        "signal": result.signal,
        "code": result.code,
        "structured": result.structured,
        "stdout": result.stdout,
        "stderr": _PROCESS_ID.sub("(node:N)", result.stderr),
        "truncated": result.truncated,
    }


@pytest.mark.parametrize("name", SAME)
def test_a_handler_gives_the_same_warm_and_cold(
    warm: SkillManager, cold: SkillManager, name: str
) -> None:
    tool = f"cases.{name.rpartition('.')[0]}"

    started, first, second = cold.call(tool), warm.call(tool), warm.call(tool)

    assert (started.warm, first.warm, second.warm) == (False, True, True)
    assert facts(first) == facts(started)
    assert facts(second) == facts(started)


DIFFERENT = handler(
    "const clock = performance.now();",
    "const words = readFileSync('/proc/self/cmdline', 'utf8').split('\\0');",
    "const pipes = process.getActiveResourcesInfo().filter((name) => name === 'PipeWrap');",
    "return [clock > 0, words.includes('--wait'), pipes.length];",
    before=FS,
)


def test_what_differs_is_what_the_page_of_limits_says(manager_of: NewManager) -> None:
    manager = manager_of({"different.mjs": DIFFERENT})
    workspace = manager.roots[0].parent / "workspace"
    limits = Limits(cpu_seconds=60)
    cold = SkillManager(*manager.roots, workspace=workspace, cache=False, limits=limits)

    served, started = manager.call("different"), cold.call("different")

    assert (served.warm, served.structured) == (True, [True, True, 2])
    assert (started.warm, started.structured) == (False, [True, False, 0])
