"""ToolExecutor: finds, checks, authorizes, runs and records a call; every entry point ends here."""

import asyncio
import logging
import os
import time
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skillpouch.arguments import check_arguments, check_output
from skillpouch.backends import backend_of
from skillpouch.backends.delivery import forget_skill
from skillpouch.backends.program_results import may_lack
from skillpouch.builtins.kept_calls import ChangeMethods, ChangeRunner
from skillpouch.builtins.own_tools import tools_to_undo, workspace_tools
from skillpouch.calls import (
    OnOutput,
    OnProgress,
    OnStep,
    Settled,
    Terms,
    ToolCall,
    chooses_way,
    interceptors,
    may_write,
    watcher,
)
from skillpouch.controls import Controls, ReadOnly, chosen_controls
from skillpouch.discovery.text_skills.active import ActiveSkills
from skillpouch.discovery.text_skills.folders import TEXT_HOME
from skillpouch.errors import (
    InvalidArgumentsError,
    SandboxFailedError,
    SandboxUnavailableError,
    SkillpouchError,
    WorkspaceError,
)
from skillpouch.execution.zygote_client import open_stack, why_no_layer
from skillpouch.jobs.job_methods import JobMethods
from skillpouch.journal.journal import Journal, user_journal
from skillpouch.journal.recording import Recorder
from skillpouch.journal.telemetry import Telemetry
from skillpouch.limits import Limits, Sandbox, Writes, layers_named
from skillpouch.policy.approval import Approver
from skillpouch.policy.authorize import BY_APPROVER, Authorizer, Permit
from skillpouch.policy.failure_hints import with_notes
from skillpouch.policy.limit_rules import limits_of, time_note
from skillpouch.policy.loading import load_policy, policy_document
from skillpouch.policy.policy import Policy
from skillpouch.registry.registry import (
    FOR_SKILL,
    WORKSPACE_NAMES,
    ToolOverlay,
    ToolSource,
    overlay_for,
)
from skillpouch.results import Stopwatch, ToolResult
from skillpouch.runtime.loop_thread import run_blocking
from skillpouch.runtime.memoize import Shared
from skillpouch.secrets.redaction import redact_result
from skillpouch.secrets.sources import Secrets, environment_secrets
from skillpouch.tools import Binary, BuiltIn, Tool, definition_of
from skillpouch.trust.grants import Grants
from skillpouch.workspace.read_only import (
    Seen,
    find_run_later,
    followed_inside,
    look_at_run_later,
    told_what_runs,
)
from skillpouch.workspace.workspace import check_workspace

if TYPE_CHECKING:
    from skillpouch.jobs.job_runner import JobRunner
    from skillpouch.policy.settling import Settler

_log = logging.getLogger(__name__)
_ROOM_SECONDS = 5.0
_USUAL: Writes = "undoable"  # if nobody chose, and a layer can be had


class ToolExecutor(Shared, ChangeMethods, JobMethods):
    """Runs tools, confined. `workspace` is where they may write: the current folder by default.

    The parameters are those of `Controls`; `controls` gives all of them at once. `builtins=True`
    adds bash, read, write, edit, grep, glob and ls, `undo_tools=True` undo and diff for models.
    """

    def __init__(  # noqa: PLR0913 - each is said by name
        self,
        tools: Iterable[Tool] | ToolSource = (),
        *,
        policy: Policy | None = None,
        approver: Approver | None = None,
        grants: Grants | None = None,
        secrets: Secrets | None = None,
        journal: Journal | bool = True,
        telemetry: Telemetry | None = None,
        limits: Limits | None = None,
        sandbox: Sandbox = "on",
        writes: Writes | None = None,
        require: Iterable[str] = (),
        workspace: str | os.PathLike[str] | None = None,
        read_only: Iterable[str | os.PathLike[str]] | ReadOnly = (),
        on_progress: OnProgress | None = None,
        controls: Controls | None = None,
        builtins: bool = False,
        undo_tools: bool = False,
    ) -> None:
        given = Controls(
            policy=policy,
            approver=approver,
            grants=grants,
            secrets=secrets,
            journal=journal,
            telemetry=telemetry,
            limits=limits,
            sandbox=sandbox,
            writes=writes,
            require=tuple(require),
            workspace=workspace,
            read_only=read_only,
            on_progress=on_progress,
        )
        self._controls = chosen_controls(controls, given)
        self._read_only = self._controls.read_only_in
        self._required = layers_named(self._controls.require)
        named = self._controls.workspace
        self._workspace = None if named is None else os.fspath(named)
        self._in_force = _InForce(self._controls)
        self._last_terms: Terms | None = None
        self._source = overlay_for(tools, self)
        own = workspace_tools(self._source) if builtins else []
        if own := [*own, *(tools_to_undo(self._controls) if undo_tools else ())]:
            # In an overlay, not in the source itself: other executors may share the source.
            self._source = ToolOverlay(self._source, own, caller=self)
        self.skills = ActiveSkills(self._source, forget_skill)

    @property
    def workspace(self) -> Path:
        """Where tools work and may write."""
        return Path(self._workspace or Path.cwd())

    def register_skill_tools(self, skill_md: str) -> list[str]:
        """Add the tools that the text of a SKILL.md declares; return the names they have.

        A tool that already has one of these names is hidden until the new one is removed;
        Skillpouch's own tools are never hidden. Adding the same text again changes nothing;
        another text with the same skill name replaces the earlier one.
        """
        # Imported here, so that executors that register no text do not load its reader.
        from skillpouch.discovery.text_skills.active import name_in

        return self.skills.use(name_in(skill_md), skill_md)

    def unregister_tools(self, names: str | Iterable[str]) -> list[str]:
        """Remove tools that `register_skill_tools` added; return the names that were removed."""
        return self.skills.remove_tools([names] if isinstance(names, str) else names)

    @property
    def source(self) -> ToolOverlay:
        """Where this executor looks tools up by name."""
        return self._source

    @property
    def tools(self) -> list[Tool]:
        """Every tool that `execute` finds, in a stable order."""
        return list(self._source)

    def definitions(self) -> list[dict[str, Any]]:
        """Return what a model is shown of every tool: name, description and parameters."""
        return [definition_of(tool) for tool in self._source]

    async def execute(  # noqa: PLR0913 - each is said by name
        self,
        name: str,
        args: Any = None,
        stdin: str | bytes | None = None,
        *,
        timeout: float | None = None,
        on_output: OnOutput | None = None,
        on_step: OnStep | None = None,
        writes: Writes | None = None,
    ) -> ToolResult:
        """Run a tool by id, wire name or bare name, and return its result, failed or not.

        `timeout` can only lower the tool's own limit, and `writes` only tighten how it changes the
        workspace: "direct", "undoable", "staged". `on_step` receives the progress that a script
        reports, at most twenty times in a second. Raises when the caller is wrong (unknown
        tool, arguments that do not fit, more time than the tool may have, not allowed) or when the
        tool could not be started.
        """
        watch = Stopwatch()
        try:
            tool, kept = self._source.get(name), None
            if TEXT_HOME.match(tool.home) is not None:  # its skill was registered as text
                tool, kept = self.skills.hold(name, tool)
            try:
                watch.lap("find the tool")
                call = self._call(tool, args, stdin, timeout, (on_output, on_step), writes, watch)
                watch.lap("check the arguments")
                played = interceptors[-1].answer(call) if interceptors else None
                result = played or await self._recorded(call)
            finally:
                if kept is not None:
                    self.skills.let_go(kept)
        except SkillpouchError as error:
            error.look_below(self._controls.roots)
            raise
        return result.timed(watch.timings)

    async def _recorded(self, call: ToolCall) -> ToolResult:
        permit = self._in_force.authorizer.standing(call) or await self._permit(call)
        call.watch.lap("ask the policy")
        with self._in_force.recorder.recording(call, permit) as record:
            permitted = permit.applied_to(call)
            if permitted.sees_staged:
                permitted = await self._in_force.settler.stacked(permitted)
            before = call.run_later
            if before is not None and permit.approved_by == BY_APPROVER:
                # Look again: the approver may have taken minutes.
                before = look_at_run_later(call.terms.workspace)
            if permitted.writes == "direct":
                result = told_what_runs(await self._run(permitted), permitted, before)
            else:
                result = await self._run_and_settle(permitted, before)
            result = check_output(call.tool, result)
            given = permit.access.variables
            if result.outcome != "ok" or call.dropped or may_lack(result, call.tool, given):
                result = self._with_notes(result, call, permit)
            result = redact_result(result, permit.redactor)
            record.result = result
        call.watch.lap("record")
        return result

    async def _run_and_settle(self, call: ToolCall, before: Mapping[str, int] | None) -> ToolResult:
        """Run a call, and bring to the workspace what it changed in its layer."""
        in_force = self._in_force
        call.record.started_ns = time.time_ns()
        await in_force.check_room()
        why = call.lacks_layer
        if why is None:
            why = await why_no_layer(call.terms.workspace)
        if why and call.writes_chosen:
            return await in_force.settler.run_copied(call, self._run, why)
        if why:  # the usual way, which cannot be had
            call = replace(call, writes="direct")
            return told_what_runs(await self._run(call), call, before)
        try:
            result = await self._run(call)
        except BaseException:
            if call.layers:
                await in_force.settle_quietly(call)
            raise
        return await in_force.settled(result, call) if call.layers else result.wrote(call.writes)

    def _with_notes(self, result: ToolResult, call: ToolCall, permit: Permit) -> ToolResult:
        # A tool's own, a shell script's. A server would not be reached in more time, either.
        if result.code in ("timeout", "timed_out") and not result.left_running:
            seconds = result.timeout_seconds or call.limits.timeout_seconds
            most, roots = permit.access.seconds, self._controls.roots
            note = time_note(call, self._in_force.policy.limits, seconds, most, roots)
            result = replace(result, content="\n".join(filter(None, (result.content, note))))
        return with_notes(result, call, permit, self._controls.roots)

    def beside(self, tools: Iterable[Tool] | ToolSource) -> "ToolExecutor":
        """Return an executor for other tools with the same controls."""
        other = copy(self)
        other._source = overlay_for(tools, other)  # noqa: SLF001 - it is one of us
        other.skills = ActiveSkills(other._source, forget_skill)  # noqa: SLF001 - as above
        return other

    def change_runner(self) -> ChangeRunner:
        return ChangeRunner(self, self._controls)

    def job_runner(self) -> "JobRunner":
        from skillpouch.jobs.job_runner import JobRunner

        return JobRunner(self, self._controls, self._in_force, self._call)

    async def _permit(self, call: ToolCall) -> Permit:
        """Return the permit for a call; a refusal is recorded in the journal, too."""
        authorizer = self._in_force.authorizer
        try:
            return await authorizer.permit(call)
        except SkillpouchError as error:
            refusal = authorizer.refusal(call, error)
            self._in_force.recorder.refused(call, refusal, error)
            raise

    async def _run(self, call: ToolCall) -> ToolResult:
        if isinstance(call.tool.runs, Binary):
            # A downloaded program without a declared hash has to be approved before it runs.
            call = replace(call, vouch=partial(self._in_force.authorizer.vouch, call))
        try:
            return await backend_of(call.tool).run(call)
        except SandboxFailedError:
            # Never retried unconfined: the user's consent is for machines without a sandbox, and
            # a tool may have caused this failure.
            raise
        except SandboxUnavailableError as error:
            unconfined = await self._in_force.authorizer.without_sandbox(call, error)
            return await backend_of(call.tool).run(unconfined)

    def execute_sync(  # noqa: PLR0913 - as `execute`
        self,
        name: str,
        args: Any = None,
        stdin: str | bytes | None = None,
        *,
        timeout: float | None = None,
        on_output: OnOutput | None = None,
        on_step: OnStep | None = None,
        writes: Writes | None = None,
    ) -> ToolResult:
        """Do what `execute` does, blocking; it also works in a notebook, a thread, after a fork."""
        coroutine = self.execute(
            name, args, stdin, timeout=timeout, on_output=on_output, on_step=on_step, writes=writes
        )
        return run_blocking(coroutine)

    def _call(  # noqa: PLR0913, PLR0917 - what `execute` was given
        self,
        tool: Tool,
        args: Any,
        stdin: str | bytes | None,
        timeout: float | None,
        listeners: tuple[OnOutput | None, OnStep | None],
        writes: str | None,
        watch: Stopwatch,
    ) -> ToolCall:
        arguments = check_arguments(tool, args)
        if isinstance(tool.runs, BuiltIn) and tool.id == FOR_SKILL:
            tool, arguments = tool.runs.session.bind(tool, arguments)
        policy = self._in_force.policy
        terms, run_later = self._terms(policy, tool)
        way, is_chosen, sees_staged = self._in_force.way_of(tool, writes)
        return ToolCall(
            tool=tool,
            arguments=arguments,
            terms=terms,
            run_later=run_later,
            limits=self._in_force.limits_of(tool, timeout, arguments),
            stdin=None if stdin is None else _bytes(tool, stdin),
            on_output=listeners[0],
            on_step=listeners[1] or watcher.get(),
            on_progress=self._controls.on_progress,
            writes=way,
            writes_chosen=is_chosen,
            sees_staged=sees_staged,
            settle=self._in_force.settle,
            watch=watch,
        )

    def _terms(self, policy: Policy, tool: Tool) -> tuple[Terms, Seen | None]:
        """Return the terms of a call, and the files that other programs run later.

        Those are None for a tool that cannot write the workspace.
        """
        folder, last = self._workspace or _current_folder(), self._last_terms
        if last is not None and not may_write(tool):
            # It writes nothing, so read-only paths need not be looked up again.
            if self._workspace is None and folder == str(last.workspace):
                return last, None  # getcwd(3) follows no links: this is the one that was checked
            if check_workspace(folder) == last.workspace:
                return last, None
        workspace = check_workspace(folder)
        named = self._read_only(workspace)
        there = [path for path in named if os.path.lexists(path)]
        read_only = tuple(followed_inside(path, workspace) for path in there)
        later, before = find_run_later(workspace)
        # Usually nothing has changed: the same object again makes look-ups in caches faster.
        seen = (workspace, read_only, later)
        if last is None or (last.workspace, last.read_only, last.run_later) != seen:
            last = self._last_terms = Terms(
                workspace=workspace,
                session=self._controls.session,
                limits=self._controls.limits,
                sandbox=self._controls.sandbox,
                required=self._required | layers_named(policy.require),
                read_only=read_only,
                reserved=tuple(path for path in named if path not in read_only),
                run_later=later,
            )
        return last, before if may_write(tool) else None


class _InForce:
    """The policy, authorizer and recorder of some controls, made at the first call.

    Executors that `beside` returns share it.
    """

    def __init__(self, controls: Controls) -> None:
        self._controls = controls
        self._room_until = 0.0

    def limits_of(self, tool: Tool, timeout: float | None, arguments: Mapping[str, Any]) -> Limits:
        given, granted = self._controls.limits, self.authorizer.granted_seconds
        return limits_of(tool, given, timeout, self.policy.limits, arguments, granted)

    def way_of(self, tool: Tool, asked: str | None) -> tuple[Writes, bool, bool]:
        """Return how a call writes, whether somebody chose that, and whether it sees what waits."""
        writes, given = chooses_way(tool), self._controls.writes
        if not writes and tool.id not in WORKSPACE_NAMES:
            return "direct", False, False
        asked = asked if writes or asked == "staged" else None
        way, is_chosen = self.policy.writes_of(tool, given, asked, _USUAL)
        return (way, is_chosen, way == "staged") if writes else ("direct", False, way == "staged")

    async def check_room(self) -> None:
        """Refuse a call whose changes could not be kept; looked at every few seconds."""
        if time.monotonic() > self._room_until:
            from skillpouch.policy.settling import check_room

            await asyncio.to_thread(check_room)
            self._room_until = time.monotonic() + _ROOM_SECONDS

    @cached_property
    def settler(self) -> "Settler":
        # Imported here: most calls change nothing, and do without it.
        from skillpouch.policy.settling import Settler

        stages = "staged" in (self._controls.writes, self.policy.writes)
        session = self._controls.session
        return Settler(self.authorizer, session, stages=stages, show=open_stack)

    async def settle(self, call: ToolCall, may_ask: bool) -> Settled:
        """Settle what a part of a call changed that outlived it."""
        return await self.settler.settle(call, may_ask=may_ask)

    async def settle_quietly(self, call: ToolCall) -> None:
        """Settle what a call changed that raises: its own error matters more than this one."""
        try:
            call.record.settled = await self.settle(call, False)
        except SkillpouchError as error:  # its workspace may be gone, with the session
            _log.warning("the changes of %s are lost: %s", call.tool.id, error)

    async def settled(self, result: ToolResult, call: ToolCall) -> ToolResult:
        """Return a result with what became of what the call changed."""
        from skillpouch.policy.settling import settled_result, unsettled_result

        try:
            return settled_result(result, call, await self.settler.settle(call))
        except SkillpouchError as error:
            return unsettled_result(result, call, error)

    @cached_property
    def policy(self) -> Policy:
        if self._controls.policy is not None:
            return self._controls.policy
        project = self._controls.project
        return load_policy(project() if callable(project) else project)

    @cached_property
    def policy_document(self) -> Mapping[str, Any] | None:
        return policy_document(self.policy)

    @cached_property
    def authorizer(self) -> Authorizer:
        return Authorizer(
            policy=self.policy,
            approver=self._controls.approver,
            grants=self._controls.grants,
            secrets=self._controls.secrets or environment_secrets,
            session=self._controls.session,
            roots=self._controls.roots,
        )

    @cached_property
    def recorder(self) -> Recorder:
        telemetry = self._controls.telemetry or Telemetry()
        return Recorder(self._journal(), telemetry, self._controls.session)

    def _journal(self) -> Journal | None:
        given, required = self._controls.journal, self.policy.require_journal
        if isinstance(given, Journal):
            return given.as_required() if required else given
        return user_journal(required=required) if given or required else None


def _current_folder() -> str:
    try:
        return os.getcwd()
    except OSError:
        raise WorkspaceError("the current folder", "it was removed") from None


def _bytes(tool: Tool, stdin: str | bytes) -> bytes:
    try:
        return stdin.encode() if isinstance(stdin, str) else stdin
    except UnicodeEncodeError as error:
        raise InvalidArgumentsError(tool.id, [f"standard input is not text: {error}"]) from None
