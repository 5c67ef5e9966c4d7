"""check_backend: checks whether a backend, ours or another package's, keeps all the rules."""

import asyncio
import json
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

from skillpouch.backends import Backend
from skillpouch.backends.external import run_provided
from skillpouch.calls import OnOutput, ToolCall
from skillpouch.errors import PortableError, SkillpouchError
from skillpouch.executor import ToolExecutor
from skillpouch.needs import Need
from skillpouch.policy.policy import Policy
from skillpouch.results import ToolResult
from skillpouch.tools import Hosted, Runs, Tool

_PACKAGE = str(Path(__file__).parents[1])
# The audit events of Python for starting a process.
_STARTS = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "os.exec")


class ContractError(PortableError, AssertionError):
    """A backend or sandbox breaks rules of its contract; `broken` are all of them, as sentences."""

    code: ClassVar[str] = "contract"

    def __init__(self, what: str, broken: Iterable[str]) -> None:
        self.what = what
        self.broken = list(broken)
        count = "one rule" if len(self.broken) == 1 else f"{len(self.broken)} rules"
        super().__init__("\n- ".join((f"{what} breaks {count}:", *self.broken)))


class Rules:
    """Collects the rules that were broken, each once."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._broken: dict[str, None] = {}

    def broken(self, rule: str) -> None:
        self._broken[rule] = None

    def holds(self, kept: object, rule: str) -> bool:
        """Note the rule if it was broken; return whether it was kept."""
        if not kept:
            self.broken(rule)
        return bool(kept)

    def settle(self) -> None:
        """Raise ContractError if any rule was broken."""
        if self._broken:
            raise ContractError(self._what, self._broken)


def commands_below(root: int) -> dict[int, str]:
    """Return the command line of each descendant of a process, by id, except waiting ones.

    The waiting ones are Skillpouch's own, kept ready for later calls.
    """
    parents, lines = dict[int, int](), dict[int, str]()
    for folder in _processes():
        with suppress(OSError, ValueError):
            status, number = (folder / "stat").read_text(), int(folder.name)
            state, parent, *_ = status.rpartition(")")[2].split()
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
            parents[number] = int(parent)
            # A zombie has no command line: it has ended, but its parent has not reaped it yet.
            if state != "Z" and line:
                lines[number] = line.decode("utf-8", "replace")
    below = {root}
    while more := {each for each, parent in parents.items() if parent in below} - below:
        below |= more
    below.discard(root)
    return {each: lines[each] for each in below if _PACKAGE not in lines.get(each, _PACKAGE)}


def _processes() -> list[Path]:
    return [folder for folder in Path("/proc").iterdir() if folder.name.isdigit()]


def is_alive(marker: str) -> bool:
    """Tell whether any process of this machine has the marker in its command line."""
    for folder in _processes():
        with suppress(OSError):
            if marker.encode() in (folder / "cmdline").read_bytes():
                return True
    return False


class _Starts(threading.local):
    """Whether this thread counts the processes that it starts, and what it counted."""

    counted: list[str] | None = None


_starts = _Starts()
_hooked = threading.Lock()  # acquired once and never released: an audit hook cannot be removed


@contextmanager
def started_processes() -> Iterator[list[str]]:
    """Yield the list of all processes that this thread starts inside the block."""
    if _hooked.acquire(blocking=False):
        sys.addaudithook(_hear)
    _starts.counted = []
    try:
        yield _starts.counted
    finally:
        _starts.counted = None


def _hear(event: str, words: tuple[Any, ...]) -> None:
    if _starts.counted is not None and event in _STARTS:
        _starts.counted.append(f"{event} {words[:1]}")


Case = tuple[Tool | Runs, Mapping[str, Any]]  # the tool to call, and its arguments

SECRET = "CONTRACT_SECRET"  # noqa: S105 - the name, by which `tells` asks for it
_VALUE = "jb7-Qmw2-kZp9-contract"
_ID = "contract.tool"
_LIMIT_SECONDS = 0.5  # time limit for a call that would take long
_ENDED_SECONDS = 1.0  # within which the coroutine of the backend must have ended after that
_CANCELLED_SECONDS = 10.0  # within which a cancelled call must raise CancelledError
_AT_ONCE = 8
# For all calls of one check; a backend that blocks the event loop exceeds it.
_PATIENCE_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendCases:
    """The calls that try a backend; leave out those that it cannot make.

    `works` succeeds, `fails` runs and fails. `waits` would take more than a minute. `streams`
    passes its output to `on_output` while it runs. `tells` returns the value of the secret
    `CONTRACT_SECRET`, which it is granted.
    """

    works: Case
    fails: Case | None = None
    waits: Case | None = None
    streams: Case | None = None
    tells: Case | None = None


def check_backend(
    backend: Backend,
    cases: BackendCases,
    *,
    workspace: str | os.PathLike[str] | None = None,
    granted: Iterable[Need] = (),
) -> None:
    """Try a backend through a `ToolExecutor`; raise ContractError with every rule that it breaks.

    The calls work in `workspace`, or in a temporary folder. `granted` is what they may use, such as
    the hosts that they need.
    """
    rules = Rules(type(backend).__name__)
    with TemporaryDirectory(prefix="skillpouch-contract-") as fresh:
        check = _Check(backend, rules, Path(workspace or fresh), tuple(granted))
        for rule in (_works, _fails, _ends_in_time, _ends_when_cancelled, _streams, _redacts):
            check.on_a_loop(partial(rule, check, cases))
        check.on_a_loop(partial(_works_at_once, check, cases))
        # Once more on another loop, after the first was closed.
        check.on_a_loop(partial(_works, check, cases))
        _works_on_loops_side_by_side(check, cases)
    rules.settle()


@dataclass(slots=True)
class _Seen:
    """What a backend did with one call, before Skillpouch bounded and redacted it."""

    started: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    gave: Any = None
    raised: BaseException | None = None


class _Check:
    """Calls one backend under the controls that every call has."""

    def __init__(
        self, backend: Backend, rules: Rules, workspace: Path, granted: tuple[Need, ...]
    ) -> None:
        self._backend = backend
        self.rules = rules
        self._workspace = workspace
        self._granted = (*granted, Need(kind="secret", value=SECRET))
        self._is_stuck = False

    async def call(
        self,
        case: Case,
        seen: _Seen,
        *,
        timeout: float | None = None,
        on_output: OnOutput | None = None,
    ) -> ToolResult:
        tool = case[0] if isinstance(case[0], Tool) else _tool(case[0])
        hosted = Hosted(
            what="a backend that is tried", run=self._running(tool, seen), granted=self._granted
        )
        # Under its own name: the names of built-in tools are reserved.
        outer = replace(tool, id=_ID, name="tool", skill="contract", runs=hosted, home="")
        executor = ToolExecutor(
            [outer],
            policy=Policy(),
            secrets=lambda _session, name: _VALUE if name == SECRET else None,
            journal=False,
            workspace=self._workspace,
        )
        return await executor.execute(_ID, dict(case[1]), timeout=timeout, on_output=on_output)

    def _running(self, tool: Tool, seen: _Seen) -> Callable[[Any], Awaitable[ToolResult]]:
        backend = _Watched(self._backend, seen)
        return lambda call: run_provided(backend, replace(call, tool=tool))

    def on_a_loop(self, make: Callable[[], Awaitable[None]]) -> None:
        """Run on a new event loop in a new thread, which is abandoned if it does not end."""
        if not self._is_stuck:
            self.join(self.start(make))

    def start(self, make: Callable[[], Awaitable[None]]) -> threading.Thread:
        async def run() -> None:
            await make()

        def guarded() -> None:
            try:
                asyncio.run(run())
            except SkillpouchError as error:
                self.rules.broken(f"a call could not be made: {error}")

        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()
        return thread

    def join(self, thread: threading.Thread) -> None:
        thread.join(_PATIENCE_SECONDS)
        if thread.is_alive():
            self._is_stuck = True
            self.rules.broken("it does not block the event loop: what takes long is awaited")


class _Watched:
    def __init__(self, backend: Backend, seen: _Seen) -> None:
        self._backend = backend
        self._seen = seen

    async def run(self, call: ToolCall) -> ToolResult:
        self._seen.started.set()
        try:
            self._seen.gave = await self._backend.run(call)
        except BaseException as error:
            self._seen.raised = error
            raise
        finally:
            self._seen.ended.set()
        result: ToolResult = self._seen.gave
        return result


def _tool(runs: Runs) -> Tool:
    return Tool(
        id=_ID,
        name="tool",
        skill="contract",
        description="Tries a backend.",
        input_schema={"type": "object", "properties": {}},
        runs=runs,
    )


async def _works(check: _Check, cases: BackendCases) -> None:
    seen = _Seen()
    result = await check.call(cases.works, seen)
    if not _gave_a_result(check.rules, seen, "a call that works"):
        return
    said = result.content[:200]
    check.rules.holds(
        seen.gave.outcome == "ok", f"a call that works has the outcome 'ok', not {said!r}"
    )
    tool = cases.works[0]
    known = tool.id if isinstance(tool, Tool) else _ID
    check.rules.holds(seen.gave.tool == known, "the result names the id of the tool that ran")
    check.rules.holds(_is_json(seen.gave.structured), "`structured` is a value that JSON has")


async def _fails(check: _Check, cases: BackendCases) -> None:
    if cases.fails is None:
        return
    seen = _Seen()
    await check.call(cases.fails, seen)
    if _gave_a_result(check.rules, seen, "a call that fails"):
        check.rules.holds(
            seen.gave.is_error, "a call that fails has another outcome than 'ok', such as 'failed'"
        )
        said = seen.gave.content or seen.gave.stderr
        check.rules.holds(said, "a call that fails says why, in `content` or `stderr`")


async def _ends_in_time(check: _Check, cases: BackendCases) -> None:
    if cases.waits is None:
        return
    seen, before = _Seen(), commands_below(os.getpid())
    ticking = asyncio.create_task(_ticks(seen))
    result = await check.call(cases.waits, seen, timeout=_LIMIT_SECONDS)
    check.rules.holds(await ticking, "it does not block the event loop: what takes long is awaited")
    check.rules.holds(
        result.outcome == "timed_out",
        f"a call that takes longer than it may is 'timed_out', not {result.outcome!r}",
    )
    await _is_over(check.rules, seen, before, "at its time limit")


async def _ticks(seen: _Seen) -> bool:
    """Tell whether anything else ran on the loop between the start of a call and its end."""
    await seen.started.wait()
    await asyncio.sleep(_LIMIT_SECONDS / 10)
    return not seen.ended.is_set()


async def _ends_when_cancelled(check: _Check, cases: BackendCases) -> None:
    if cases.waits is None:
        return
    seen, before = _Seen(), commands_below(os.getpid())
    running = asyncio.create_task(check.call(cases.waits, seen))
    begun = asyncio.create_task(seen.started.wait())
    await asyncio.wait({begun, running}, return_when=asyncio.FIRST_COMPLETED)
    begun.cancel()
    await asyncio.sleep(_LIMIT_SECONDS)  # gives the call time to begin its waiting
    running.cancel()
    await asyncio.wait({running}, timeout=_CANCELLED_SECONDS)
    check.rules.holds(running.cancelled(), "a call that is cancelled raises CancelledError")
    await _is_over(check.rules, seen, before, "when it is cancelled")


async def _is_over(rules: Rules, seen: _Seen, before: Mapping[int, str], when: str) -> None:
    try:
        await asyncio.wait_for(seen.ended.wait(), _ENDED_SECONDS)
    except TimeoutError:
        rules.broken(f"a call is over {when}: its coroutine still runs")
    for number, line in commands_below(os.getpid()).items():
        if number not in before:
            rules.broken(f"a call leaves no process {when}: {line[:100]!r} still runs")


async def _streams(check: _Check, cases: BackendCases) -> None:
    if cases.streams is None:
        return
    heard: list[bytes] = []
    seen = _Seen()
    result = await check.call(cases.streams, seen, on_output=lambda _, data: heard.append(data))
    if not _gave_a_result(check.rules, seen, "a call that streams"):
        return
    check.rules.holds(heard, "what is printed goes to `on_output` while the call runs")
    streamed = b"".join(heard).decode("utf-8", "replace")
    printed = (result.stdout + result.stderr).strip()
    check.rules.holds(
        result.truncated or printed in streamed or streamed.strip() in printed,
        "what went to `on_output` is what the result has in `stdout` and `stderr`",
    )


async def _redacts(check: _Check, cases: BackendCases) -> None:
    if cases.tells is None:
        return
    heard: list[bytes] = []
    seen = _Seen()
    result = await check.call(cases.tells, seen, on_output=lambda _, data: heard.append(data))
    if not _gave_a_result(check.rules, seen, "a call that tells a secret"):
        return
    raw = f"{seen.gave.content}{seen.gave.stdout}{seen.gave.stderr}{seen.gave.structured}"
    marked = f"[redacted {SECRET}]"
    shown = f"{result.content}{result.stdout}{result.stderr}{result.structured}"
    check.rules.holds(
        _VALUE in raw or marked in raw,
        f"a tool that asks for the secret {SECRET} is given its value, in `call.access.secrets`",
    )
    leaked = _VALUE in shown or _VALUE.encode() in b"".join(heard)
    saved = any(_VALUE in path.read_text(errors="replace") for path in result.saved)
    check.rules.holds(not leaked and not saved, "no value of a secret is in what a caller is shown")


async def _works_at_once(check: _Check, cases: BackendCases) -> None:
    seen = [_Seen() for _ in range(_AT_ONCE)]
    results = await asyncio.gather(*(check.call(cases.works, each) for each in seen))
    outcomes = {result.outcome for result in results}
    check.rules.holds(
        outcomes == {"ok"}, f"{_AT_ONCE} calls at once all work, not only some: {sorted(outcomes)}"
    )


def _works_on_loops_side_by_side(check: _Check, cases: BackendCases) -> None:
    for thread in [check.start(partial(_works, check, cases)) for _ in range(2)]:
        check.join(thread)


def _gave_a_result(rules: Rules, seen: _Seen, what: str) -> bool:
    if seen.raised is not None:
        raised = f"{type(seen.raised).__name__}: {seen.raised!s:.200}"
        rules.broken(f"{what} returns a ToolResult, and raises nothing: it raised {raised}")
        return False
    returned = type(seen.gave).__name__
    return rules.holds(
        isinstance(seen.gave, ToolResult), f"{what} returns a ToolResult, not a {returned}"
    )


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True
