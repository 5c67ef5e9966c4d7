"""Runs one tool of a skill as in production: typed, confined, in its own workspace."""

from collections.abc import Mapping
from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from skillpouch.manager import SkillManager
from skillpouch.policy.policy import Policy
from skillpouch.results import ToolResult


def run_tool(  # noqa: PLR0913 - passed by keyword
    skills: str | PathLike[str],
    tool: str,
    arguments: Any = None,
    *,
    stdin: str | bytes | None = None,
    timeout: float | None = None,
    workspace: str | PathLike[str] | None = None,
    files: Mapping[str, str | bytes] | None = None,
    policy: Policy | None = None,
    secrets: Mapping[str, str] | None = None,
) -> ToolResult:
    """Run a tool of the skill or skills in a folder, and return its result.

    The tool works in `workspace`, or in a temporary folder; `files` are put there first. The
    policy, the journal and the secrets of the user who runs the test are not used: `policy` is
    Skillpouch's default unless you pass one, and only the passed `secrets` exist. A skill gets them
    if the policy grants them: `Policy.trusting()` grants everything that a skill declares.
    """
    known = dict(secrets or {})
    with ExitStack() as stack:
        folder = workspace or stack.enter_context(TemporaryDirectory(prefix="skillpouch-test-"))
        _put(Path(folder), files or {})
        manager = SkillManager(
            skills,
            workspace=folder,
            policy=policy or Policy(),
            secrets=lambda _session, name: known.get(name),
            journal=False,
        )
        return manager.call(tool, arguments, stdin, timeout=timeout)


def _put(folder: Path, files: Mapping[str, str | bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
