"""Every error that a caller can meet: built from facts, with message, hint and stable code."""

import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from skillpouch.problems import Problem

# Commands that look for skills, so they need `--root`; `trust --unconfined` is about the machine.
_LOOKS_FOR_SKILLS = re.compile(
    r"`(skillpouch (?:call|check|list|show|trust)(?! --unconfined)(?: (?!--root )[^ `]+)*)`"
)
_PASTED = ("skillpouch ", "Policy")


def nearest(name: str, known: Iterable[str], *, most: int = 3) -> list[str]:
    """Return the known names that `name` was probably meant to be, best first."""
    from difflib import get_close_matches

    return get_close_matches(name, list(dict.fromkeys(known)), n=most, cutoff=0.6)


def _did_you_mean(names: Sequence[str], otherwise: str) -> str:
    return f"did you mean {' or '.join(repr(name) for name in names)}?" if names else otherwise


def _shown(count: int, what: str) -> str:
    if not count:
        return f"no {what}s were found; `skillpouch list` says where it looked"
    return f"`skillpouch list` shows {f'the one {what}' if count == 1 else f'all {count} {what}s'}"


class PortableError(Exception):
    """An error that pickle and copy restore from its fields: they do not call `__init__` again."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args, vars(self))


def _restored(
    kind: type[PortableError], words: tuple[Any, ...], facts: dict[str, Any]
) -> PortableError:
    error = kind.__new__(kind, *words)
    error.args = words
    vars(error).update(facts)
    return error


class SkillpouchError(PortableError):
    """The root of every error Skillpouch raises on purpose.

    `code` never changes between versions; `hint` is the next step, or empty.
    """

    code: ClassVar[str] = "skillpouch"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint

    def look_below(self, roots: Sequence[str]) -> None:
        """Add `--root` to the commands in the hint, so that they find the same skills."""
        options = "".join(f" --root {shlex.quote(root)}" for root in roots)
        self.hint = _LOOKS_FOR_SKILLS.sub(lambda found: f"`{found[1]}{options}`", self.hint)

    @property
    def advice(self) -> str:
        """The hint for a model; empty if the hint names a command, which only people can run."""
        return "" if "skillpouch " in self.hint else self.hint


class SkillNotFoundError(SkillpouchError):
    """No skill has this name; `known` are names to suggest."""

    code = "skill_not_found"

    def __init__(self, name: str, *, known: Iterable[str] = (), hint: str = "") -> None:
        known = list(known)
        self.name = name
        self.nearest = nearest(name, known)
        hint = hint or _did_you_mean(self.nearest, _shown(len(known), "skill"))
        super().__init__(f"no skill named {name!r}", hint=hint)


class SkillUnreadableError(SkillpouchError):
    """A skill that was found before can no longer be read."""

    code = "skill_unreadable"

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(
            f"cannot read {path}: {reason}", hint="run `skillpouch check` on its folder"
        )


class UnknownToolError(SkillpouchError):
    """`known` are names to suggest; `count` is how many tools there are, each counted once."""

    code = "unknown_tool"

    def __init__(
        self,
        name: str,
        *,
        known: Iterable[str] = (),
        count: int | None = None,
        hint: str = "",
        kind: str = "tool",
    ) -> None:
        known = list(known)
        self.name = name
        self.nearest = nearest(name, known)
        many = _shown(len(known) if count is None else count, "tool")
        hint = hint or _did_you_mean(self.nearest, many)
        super().__init__(f"no {kind} named {name!r}", hint=hint)


class UnboundToolError(SkillpouchError):
    """A tool cannot be run before an executor knows it."""

    code = "unbound_tool"

    def __init__(self, name: str, *, made_elsewhere: bool = False) -> None:
        self.name = name
        hint = "get it from a SkillManager, or register it: ToolExecutor([tool])"
        if made_elsewhere:
            message = f"{name} was made in another process and does not exist in this one"
            hint = "make the tool in this process, from a function of a module"
        else:
            message = f"tool {name!r} belongs to no executor"
        super().__init__(message, hint=hint)


class AmbiguousNameError(SkillpouchError):
    """A short name that several skills or tools have."""

    code = "ambiguous_name"

    def __init__(self, name: str, candidates: Sequence[str]) -> None:
        self.name = name
        self.candidates = tuple(candidates)
        super().__init__(
            f"{name!r} is the name of {len(candidates)} skills or tools",
            hint=f"say which: {', '.join(candidates)}",
        )


class BuiltInNameError(SkillpouchError):
    """A name that belongs to one of Skillpouch's own tools; no other tool can take it."""

    code = "built_in_name"

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"{name!r} is the name of one of Skillpouch's own tools",
            hint=f"give your tool another name, such as @tool(name='my_{name}')",
        )


class InvalidArgumentsError(SkillpouchError):
    """Arguments that do not fit a tool; `problems` names each of them."""

    code = "invalid_arguments"

    def __init__(self, tool: str, problems: Sequence[str], *, usage: str = "") -> None:
        self.tool = tool
        self.problems = list(problems)
        super().__init__(f"invalid arguments for {tool}: {'; '.join(self.problems)}", hint=usage)


class TimeLimitError(SkillpouchError):
    """A caller asks for more seconds than a tool may have; `how` tells users to raise the limit."""

    code = "time_limit"

    def __init__(self, tool: str, asked: float, most: float, *, how: str) -> None:
        self.tool = tool
        self.asked = asked
        self.most = most
        self._said = f"ask for {most:g} s or less; only the user can raise it"
        super().__init__(
            f"{tool} may run for {most:g} s, not {asked:g} s", hint=f"{self._said}: {how}"
        )

    @property
    def advice(self) -> str:
        return self._said


class CallDeniedError(SkillpouchError):
    """A call that may not run.

    `reasons` say which rule or need is against it, `hints` are commands or `Policy` arguments
    that would allow it. The default message and hint are made of these.
    """

    code = "denied"

    def __init__(
        self,
        message: str = "",
        *,
        hint: str = "",
        tool: str = "",
        reasons: Sequence[str] = (),
        hints: Sequence[str] = (),
    ) -> None:
        self.tool = tool
        self.reasons = tuple(reasons)
        self.hints = tuple(hints)
        ways = (f"`{way}`" if way.startswith(_PASTED) else way for way in self.hints)
        why = message or f"{tool} may not run: {'; '.join(self.reasons) or 'no policy allows it'}"
        super().__init__(why, hint=hint or " or ".join(ways))

    @property
    def advice(self) -> str:
        return "only the user can allow it: tell them what it needs, and continue without it"


class ToolRestrictionError(CallDeniedError):
    """A skill whose `allowed-tools` leaves out Bash may not run its discovered scripts."""

    code = "tool_restricted"

    def __init__(self, skill_name: str, allowed_tools: Sequence[str]) -> None:
        self.skill_name = skill_name
        self.allowed_tools = list(allowed_tools)
        super().__init__(
            f"Tool 'Bash' not allowed for skill '{skill_name}'. Allowed: {self.allowed_tools}",
            hint="add Bash to `allowed-tools` in its SKILL.md, "
            "or use Policy(allowed_tools='advice') to treat the list as advice",
        )


class UnsafeScriptError(CallDeniedError):
    """A script that is never run, whatever is granted: setuid, setgid, or outside its skill."""

    code = "unsafe_script"

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path} is not run: {reason}")


class WorkspaceError(CallDeniedError):
    """A folder that cannot be given to a tool to write in."""

    code = "workspace"

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        super().__init__(
            f"{path} cannot be a workspace: {reason}",
            hint="change to a project folder, or name one: --workspace DIR, workspace=DIR",
        )


class PolicyFileError(SkillpouchError):
    """A policy file that cannot be used; `problems` lists everything that is wrong with it."""

    code = "policy_file"

    def __init__(self, path: str, problems: Sequence[Problem]) -> None:
        self.path = path
        self.problems = tuple(problems)
        lines = [
            f"line {problem.line}: {problem.message}" if problem.line else problem.message
            for problem in self.problems
        ]
        super().__init__(
            f"{path} cannot be used: {'; '.join(lines)}",
            hint="correct the file, or move it away; no call runs until all of it is valid",
        )


class SandboxUnavailableError(SkillpouchError):
    """A protection that was asked for is missing on this machine; nothing ran."""

    code = "sandbox_unavailable"

    def __init__(self, missing: tuple[str, ...], reason: str = "") -> None:
        self.missing = missing
        self.reason = reason
        because = f": {reason}" if reason else ""
        super().__init__(
            f"this machine cannot protect {', '.join(missing)}{because}",
            hint="run `skillpouch doctor`; `skillpouch trust --unconfined` runs tools unprotected",
        )


class SandboxFailedError(SandboxUnavailableError):
    """This machine supports the protections, but setting them up failed this time; nothing ran."""

    code = "sandbox_failed"

    def __init__(self, reason: str) -> None:
        super().__init__(("confinement",), reason)
        self.args = (f"the sandbox could not be made: {reason}",)
        self.hint = "call again; `skillpouch doctor` tries each protection"


class CommandStartError(SkillpouchError):
    """The program could not be started; nothing ran."""

    code = "cannot_start"

    def __init__(self, program: str, reason: str, *, hint: str = "") -> None:
        self.program = program
        self.reason = reason
        super().__init__(f"cannot start {program}: {reason}", hint=hint)


class NoPlaceError(CommandStartError):
    """Other calls kept all processes busy for as long as this call may take; nothing ran."""

    code = "server_busy"

    def __init__(self, program: str, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(
            program,
            f"no process became free in the {seconds:g} s that the call may take",
            hint="try again later, or end jobs that run in the background",
        )


class PathReplacedError(CommandStartError):
    """A path that a call may use was replaced or removed after it was checked; nothing ran."""

    code = "path_replaced"

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        super().__init__(
            "the tool",
            f"{path} cannot be given to it: {reason}",
            hint="another program moves it, or replaces it with a link: see what writes there, and "
            "call again",
        )


class ToolSchemaError(CommandStartError):
    """A tool's own schema is invalid, so no argument can be checked; `program` is the tool's id."""

    code = "tool_schema"


class NotRunnableError(CommandStartError):
    """A tool of a kind that has nothing to run here."""

    code = "not_runnable"

    def __init__(self, tool: str, kind: str, skill: str) -> None:
        self.kind = kind
        if kind == "stub":
            reason = f"it has no script: load the skill {skill!r} and follow its instructions"
        else:
            reason = f"tools of kind {kind!r} cannot be run yet"
        super().__init__(
            tool,
            reason,
            hint=f"`skillpouch show {shlex.quote(skill)}` prints what the skill {skill!r} says",
        )


class ProviderError(CommandStartError, ValueError):
    """An entry point that cannot be used, or that several installed packages provide."""

    code = "provider"

    def __init__(self, group: str, name: str, reason: str, *, hint: str = "") -> None:
        self.group, self.name = group, name
        super().__init__(f"{name!r} of the entry points {group}", reason, hint=hint)


class NotProvidedError(ProviderError):
    """A backend or sandbox that no installed package provides; `package` is what a skill names."""

    code = "not_provided"

    def __init__(
        self, group: str, name: str, *, package: str = "", known: Sequence[str] = ()
    ) -> None:
        self.package, self.known = package, tuple(known)
        there = f"; there are {', '.join(known)}" if known else ""
        named = f"the skill names {package}, look at it before you install it"
        hint = f"{named if package else 'install the package that does'}{there}"
        super().__init__(group, name, "no installed package provides it", hint=hint)


class InterpreterMissingError(CommandStartError):
    code = "interpreter_missing"

    def __init__(self, names: Sequence[str], package: str) -> None:
        self.names = tuple(names)
        wanted = " or ".join(names)
        super().__init__(wanted, "it is not installed", hint=f"install it: apt install {package}")


class UnknownInterpreterError(CommandStartError):
    """An inline script names an interpreter that is not known."""

    code = "unknown_interpreter"

    def __init__(self, name: str, known: Sequence[str]) -> None:
        self.nearest = nearest(name, known)
        known_ones = f"there are {', '.join(known)}"
        hint = _did_you_mean(self.nearest, known_ones)
        super().__init__(repr(name), "inline scripts cannot use it", hint=hint)


class MissingExtraError(SkillpouchError, ImportError):
    """Optional packages that are not installed; `missing` are requirements such as `mcp>=2,<3`."""

    code = "missing_extra"

    def __init__(
        self, extra: str, missing: Sequence[str], *, purpose: str, instead: str = ""
    ) -> None:
        self.extra = extra
        self.missing = tuple(missing)
        names = ", ".join(re.split(r"[^\w.-]", each)[0] for each in missing)
        are = "is not installed; it is" if len(missing) == 1 else "are not installed; they are"
        command = f"pip install {shlex.join(missing)}"
        super().__init__(
            f"{names} {are} needed for {purpose}",
            hint=f"{command}, or {instead}" if instead else command,
        )
        self.add_note(f"hint: {self.hint}")  # a failed import shows only a traceback, with notes


class SkillInvocationError(SkillpouchError):
    """A skill or one of its tools was run and failed."""

    code = "invocation_failed"


class ScriptExecutionError(SkillInvocationError):
    """A script ran and failed: `exit_code` and `stderr` say how."""

    code = "script_failed"

    def __init__(
        self, message: str, exit_code: int = 1, stderr: str = "", *, hint: str = ""
    ) -> None:
        self.exit_code = exit_code
        self.stderr = stderr
        super().__init__(message, hint=hint)


class ScriptTimeoutError(ScriptExecutionError):
    """A script took longer than it may, and was ended: exit code 124."""

    code = "script_timed_out"

    def __init__(self, script_path: str, timeout_seconds: float, stderr: str = "") -> None:
        self.script_path = script_path
        self.timeout_seconds = timeout_seconds
        # 124: the exit status of timeout(1).
        super().__init__(
            f"Script timed out after {timeout_seconds:g}s: {script_path}",
            124,
            stderr,
            hint="only the user can raise its limit: `timeout_seconds` of `[[limits]]` in "
            "policy.toml, or `--timeout` at a terminal",
        )


FaultKind = Literal[
    "not_found", "invalid_argument", "conflict", "timeout", "denied", "unsupported", "too_much"
]


class OutsideWorkspaceError(CallDeniedError):
    """A path that leads out of the workspace: by `..`, by a link, or because it starts outside."""

    code = "outside_workspace"

    def __init__(self, path: str, workspace: str | Path) -> None:
        self.path = path
        super().__init__(
            f"{path!r} is outside the workspace {workspace}",
            hint="name a path relative to the workspace, or choose another one: --workspace DIR",
        )


class ToolFaultError(SkillpouchError):
    """Why a tool could not do its task; `kind` is for programs, message and hint for a model."""

    code = "workspace_fault"

    def __init__(self, kind: FaultKind, message: str, *, hint: str = "") -> None:
        self.kind = kind
        super().__init__(message, hint=hint)
