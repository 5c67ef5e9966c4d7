"""The tools that a script can call, and the names and parameters of their commands."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

from skillpouch.calls import owner_here
from skillpouch.results import ToolResult
from skillpouch.signatures.argv import ArgvPlan
from skillpouch.signatures.signature import JsonSchema
from skillpouch.tools import Effect, Tool

if TYPE_CHECKING:
    from skillpouch.calls import OnStep
    from skillpouch.jobs.job import Job
    from skillpouch.jobs.soft_limit import CallsAndJobs


@dataclass(frozen=True, slots=True)
class ToolDef:
    """What a model is told about a command, and the schema that its flags are read by.

    `effects` say what a call does to the world; `examples` are whole command lines. `plan` is the
    command line of a script, whose flags are further names of its parameters.
    """

    name: str
    description: str
    _: KW_ONLY
    input_schema: JsonSchema = field(default_factory=dict)
    output_schema: JsonSchema | None = None
    effects: tuple[Effect, ...] = ("execute",)
    examples: tuple[str, ...] = ()
    plan: ArgvPlan | None = field(default=None, repr=False)

    def with_schema(self, schema: JsonSchema) -> Self:
        # Not `replace`, which takes three times as long: there may be thousands.
        return type(self)(
            self.name,
            self.description,
            input_schema=dict(schema),  # a host may use one of its own for several tools
            output_schema=self.output_schema,
            effects=self.effects,
            examples=self.examples,
            plan=self.plan,
        )

    def with_output_schema(self, schema: JsonSchema) -> Self:
        return replace(self, output_schema=schema)

    def with_effects(self, *effects: Effect) -> Self:
        return replace(self, effects=effects)

    def with_examples(self, *examples: str) -> Self:
        return replace(self, examples=examples)


@dataclass(frozen=True, slots=True)
class ToolArgs:
    """What a callback is given: typed parameters, and the text piped into the command.

    Each `param_…` gives None for a parameter that is absent or of another type.
    """

    params: Mapping[str, Any] = field(default_factory=dict)
    stdin: str | None = None

    def param_str(self, key: str) -> str | None:
        value = self.params.get(key)
        return value if isinstance(value, str) else None

    def param_i64(self, key: str) -> int | None:
        value = self.params.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def param_f64(self, key: str) -> float | None:
        value = self.params.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        try:
            return float(value)
        except OverflowError:
            return None

    def param_bool(self, key: str) -> bool | None:
        value = self.params.get(key)
        return value if isinstance(value, bool) else None


class ToolCallback(Protocol):
    """What a command does: it gets ToolArgs, may be async, and what it returns is printed."""

    def __call__(self, args: ToolArgs, /) -> Any: ...


_LONGEST_BYTES = 8 * 1024 * 1024

Folders = dict[str, dict[str, bytes]]


def _no_folders(_script: str) -> Folders:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolbox:
    """Commands by name: what `offered` gives, another mapping whenever there are others.

    `tool` finds what runs for a command, and raises UnknownToolError for one that is gone;
    `folders` are files a script may read.
    """

    offered: Callable[[], Mapping[str, ToolDef]]
    executor: "CallsAndJobs"
    tool: Callable[[str], Tool]
    changes: bool = False  # whether commands may come and go
    folders: Callable[[str], Folders] = _no_folders
    immediate: frozenset[str] = frozenset()  # commands that never wait, not even for an approval
    only_functions: bool = False  # of the host: no command runs a program in the workspace

    @property
    def definitions(self) -> Mapping[str, ToolDef]:
        """The commands that there are now."""
        return self.offered()

    async def folders_for(self, script: str) -> Folders:
        """Return the files that a script may read; reading them may take a moment."""
        if self.folders is _no_folders:
            return {}
        return await asyncio.to_thread(self.folders, script)

    async def call(
        self,
        name: str,
        params: Mapping[str, Any],
        stdin: str | None,
        on_step: "OnStep | None" = None,
    ) -> ToolResult:
        """Run a tool; raises what `ToolExecutor.execute` raises."""
        whole = _Whole()
        found = await self.executor.execute(
            self._id_of(name), params, stdin, on_output=whole.hear, on_step=on_step
        )
        return whole.of(found) if found.truncated else found

    async def start(self, name: str, params: Mapping[str, Any], stdin: str | None) -> ToolResult:
        """Start a tool as a job of whoever runs the script; what it gives is the id."""
        from skillpouch.jobs.soft_limit import Wanted, start_job

        wanted = Wanted(tool=self._id_of(name), arguments=params, stdin=stdin)
        job = await start_job(self.executor, wanted, owner_here.get())
        line = f"{job.id}\n"
        return ToolResult(
            tool=job.tool, outcome="ok", content=job.id, stdout=line, job_id=job.id, exit_code=0
        )

    async def job(self, job_id: str) -> "Job":
        """Return a job of whoever runs the script; raises NoSuchJobError for any other."""
        from skillpouch.jobs.soft_limit import own_job

        session = self.executor.job_runner().session
        return await own_job(self.executor, job_id, owner_here.get(), session)

    def _id_of(self, name: str) -> str:
        return self.tool(name).id if self.changes else name


class _Whole:
    """The standard output of one call, up to what a pipe of the engine takes."""

    def __init__(self) -> None:
        self._data = bytearray()
        self.is_too_long = False

    def hear(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        if stream == "stdout" and not self.is_too_long:
            self.is_too_long = len(self._data) + len(data) > _LONGEST_BYTES
            self._data += data

    def of(self, found: ToolResult) -> ToolResult:
        """Return a result with all of an output of which a model would be shown both ends."""
        text = self._data.decode("utf-8", "replace")
        value = found.structured
        if found.returned:  # cut only for a model, unless it was too long to be read as a value
            return replace(found, truncated=value is None)
        if self.is_too_long or text == found.stdout:
            return found
        is_page = isinstance(value, dict) and value.get("next_offset") is not None
        return replace(found, stdout=text, truncated=is_page)
