"""Controls: what holds for all calls of an executor, whoever makes them."""

import os
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from skillpouch.limits import OWN_SANDBOXES, Sandbox, Writes, check_way, layers_named

if TYPE_CHECKING:  # listing skills needs none of these
    from skillpouch.calls import OnProgress
    from skillpouch.journal.journal import Journal
    from skillpouch.journal.telemetry import Telemetry
    from skillpouch.limits import Limits
    from skillpouch.policy.approval import Approver
    from skillpouch.policy.policy import Policy
    from skillpouch.secrets.sources import Secrets
    from skillpouch.trust.grants import Grants

ReadOnly = Callable[[Path], tuple[Path, ...]]  # workspace → paths that no tool may write


@dataclass(frozen=True, slots=True, kw_only=True)
class Controls:
    """What the owner of an agent decides once, and no caller of a tool can change.

    `SkillManager`, `SessionManager` and `ToolExecutor` take each of these as a parameter of the
    same name, or all of them as `controls`. Defaults are looked up at the first call.

    Attributes:
        policy: What may run. By default the user's own policy, tightened by the
            `skillpouch.toml` of the project.
        approver: Who is asked about calls that the policy does not decide; nobody by default.
        grants: What was granted to skills; by default what `skillpouch trust` wrote.
        secrets: Where values of secrets come from; by default the environment.
        journal: Where calls are recorded. `False` records nothing, unless the policy requires it.
        telemetry: Whether calls become spans and metrics of OpenTelemetry.
        limits: Time, memory, output and processes of a call; by default those of the kind of tool.
        sandbox: `"on"` confines tools, `"off"` runs them unconfined; any other name is that of a
            sandbox that an installed package provides.
        writes: How calls change their workspace: `"direct"`, `"undoable"` or `"staged"`. Rules of
            the policy can only tighten it. By default undoable, where that costs little.
        require: Protections that must be there (`fs`, `net`, `tree` …), or nothing runs.
        workspace: Where tools work and may write: the current folder by default.
        read_only: Files and folders that no tool may write, even inside the workspace; the
            workspace itself may be one of them.
        on_progress: Receives lines for people about what takes long, such as installing packages.
        session: The session that calls belong to, in the journal and when secrets are looked up.
        project: The folder in which `skillpouch.toml` is looked for.
        roots: The roots that the user named, if any: commands in hints repeat them.
    """

    policy: "Policy | None" = None
    approver: "Approver | None" = None
    grants: "Grants | None" = None
    secrets: "Secrets | None" = None
    journal: "Journal | bool" = True
    telemetry: "Telemetry | None" = None
    limits: "Limits | None" = None
    sandbox: Sandbox = "on"
    writes: Writes | None = None
    require: Collection[str] = frozenset()
    workspace: str | os.PathLike[str] | None = None
    read_only: Iterable[str | os.PathLike[str]] | ReadOnly = ()
    on_progress: "OnProgress | None" = None
    session: str | None = None
    project: Path | Callable[[], Path] | None = None
    roots: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.sandbox not in OWN_SANDBOXES:
            # Imported here: a user of our own sandbox does not load the search for entry points.
            from skillpouch.runtime.entry_points import SANDBOXES, require_provided

            require_provided(SANDBOXES, self.sandbox)
        check_way(self.writes)
        object.__setattr__(self, "require", layers_named(self.require))
        if self.workspace is not None:
            # Made absolute now: the current folder may change before the first call. Links are
            # not resolved, so that errors name the path that the user knows.
            absolute = Path(os.path.abspath(self.workspace))  # noqa: PTH100
            object.__setattr__(self, "workspace", absolute)
        if not callable(self.read_only):
            # One path alone, too: a text would be taken for a list of its letters.
            given = self.read_only
            several = (given,) if isinstance(given, str | os.PathLike) else given
            paths = tuple(Path(os.path.realpath(path)) for path in several)
            object.__setattr__(self, "read_only", paths)

    @property
    def read_only_in(self) -> ReadOnly:
        """A function that returns the files and folders of a workspace that no tool may write."""
        if callable(self.read_only):
            return self.read_only
        paths = tuple(map(Path, self.read_only))
        return lambda _: paths

    def keeping(self, more: ReadOnly) -> "Controls":
        """Return a copy that makes more paths read-only."""
        if self.read_only == ():
            return replace(self, read_only=more)
        own = self.read_only_in
        return replace(self, read_only=lambda folder: (*more(folder), *own(folder)))


def chosen_controls(controls: Controls | None, given: Controls) -> Controls:
    """Return the controls, passed as one object or as single parameters; refuse both at once."""
    if controls is None:
        return given
    usual = Controls()
    names = [each.name for each in fields(given) if _differ(given, usual, each.name)]
    if names:
        told = ", ".join(f"{name}=" for name in names)
        raise ValueError(f"controls= is given, and so is {told}: pass {told} to Controls instead")
    return controls


def _differ(one: Controls, other: Controls, name: str) -> bool:
    return bool(getattr(one, name) != getattr(other, name))
