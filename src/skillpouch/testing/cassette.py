"""Cassettes: record the calls of a test once, as JSON that people can read, and replay them."""

import dataclasses
import hashlib
import json
import os
import tempfile
import threading
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

from skillpouch.calls import ToolCall, intercepted_by
from skillpouch.errors import CallDeniedError, PortableError, SkillpouchError
from skillpouch.results import Attachment, ChangedFile, Conflict, FileChange, HttpAnswer, ToolResult
from skillpouch.secrets.redaction import Redactor

# Facts of one machine and one run, which do not matter to an agent.
_LEFT_OUT = {"call_id", "saved", "warm", "cold_because", "timings"}
_DEFAULTS = ToolResult(tool="", outcome="ok")
_TUPLES = ("run_later", "refused_hosts", "looked_up", "notes")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """One call. `key` identifies it; `gave` is a result or an error, as JSON."""

    key: str
    tool: str
    arguments: Any
    gave: dict[str, Any]


def key_of(call: ToolCall) -> str:
    """Return a digest of the tool, the checked arguments and the input, if any."""
    stdin = None if call.stdin is None else call.stdin.hex()
    text = json.dumps([call.tool.id, call.arguments, stdin], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def record_of(call: ToolCall, ended: ToolResult | SkillpouchError) -> RecordedCall:
    """Return the record of a call; neither arguments nor result may contain a secret."""
    gave = _error(ended) if isinstance(ended, SkillpouchError) else {"result": _result(ended)}
    return RecordedCall(key=key_of(call), tool=call.tool.id, arguments=call.said, gave=gave)


def given(record: RecordedCall) -> ToolResult | SkillpouchError:
    """Return the result of a recorded call, or the error that it ended with."""
    if "error" in record.gave:
        return _restored_error(record.tool, **record.gave["error"])
    return _restored(record.gave["result"])


def _result(result: ToolResult) -> dict[str, Any]:
    fields = [field.name for field in dataclasses.fields(result) if field.name not in _LEFT_OUT]
    found = {name: getattr(result, name) for name in fields}
    kept = {name: value for name, value in found.items() if value != getattr(_DEFAULTS, name)}
    return {"tool": result.tool, "outcome": result.outcome} | {
        name: _plain(value) for name, value in kept.items()
    }


def _plain(value: Any) -> Any:
    match value:
        case Attachment():
            data = b64encode(value.data).decode()
            return {"name": value.name, "type": value.type, "data": data}
        case ChangedFile() | FileChange() | Conflict():
            return dataclasses.asdict(value)
        case HttpAnswer():
            return {"status": value.status, "url": value.url, "headers": dict(value.headers)}
        case tuple():
            return [_plain(each) for each in value]
        case _:
            return dict(value) if hasattr(value, "items") else value


def _restored(fields: dict[str, Any]) -> ToolResult:
    files = [ChangedFile(**each) for each in fields.get("files", ())]
    shown = [
        Attachment(name=each["name"], type=each["type"], data=b64decode(each["data"]))
        for each in fields.get("attachments", ())
    ]
    http = fields.get("http")
    made = {
        **{name: tuple(fields[name]) for name in _TUPLES if name in fields},
        "files": tuple(files),
        "changes": tuple(FileChange(**each) for each in fields.get("changes", ())),
        "conflicts": tuple(Conflict(**each) for each in fields.get("conflicts", ())),
        "attachments": tuple(shown),
        "http": None if http is None else HttpAnswer(**http),
    }
    return ToolResult(**{**fields, **made})


def _error(error: SkillpouchError) -> dict[str, Any]:
    denied = isinstance(error, CallDeniedError)
    facts = {"denied": denied, "code": error.code, "message": str(error), "hint": error.hint}
    return {"error": facts}


def _restored_error(
    tool: str, *, denied: bool, code: str, message: str, hint: str
) -> SkillpouchError:
    error = (
        CallDeniedError(message, hint=hint, tool=tool)
        if denied
        else SkillpouchError(message, hint=hint)
    )
    error.__dict__["code"] = code  # programs check the code; other facts are not recorded
    return error


_MOST_SHOWN = 5
_LONGEST = 200


class CassetteError(PortableError, AssertionError):
    """Not a SkillpouchError: an agent would handle that and go on, and its test would pass."""

    code: ClassVar[str] = "cassette"

    def __init__(self, message: str, *, hint: str = "") -> None:
        self.hint = hint
        super().__init__(f"{message}\nhint: {hint}" if hint else message)


class CassetteMissError(CassetteError):
    """A call was not recorded; `recorded` are the recorded arguments of the same tool.

    `times` is how often this call was recorded: each recorded answer is used once.
    """

    code = "cassette_miss"

    def __init__(
        self, path: Path, tool: str, arguments: Any, *, recorded: Sequence[Any], times: int
    ) -> None:
        self.path = path
        self.tool = tool
        self.arguments = arguments
        self.recorded = list(recorded)
        call = f"{tool} with {_shown(arguments)}"
        again = 'delete the file, or use mode="record" once, to record it again'
        if times:
            message = f"{path}: {call} was recorded {times} times and is called once more"
            super().__init__(message, hint=again)
            return
        others = "; ".join(_shown(each) for each in self.recorded[:_MOST_SHOWN])
        known = f"{tool} was recorded with {others}" if others else f"no call of {tool} is in it"
        super().__init__(f"{path}: no recorded call of {call}", hint=f"{known}; {again}")


class CassetteSecretError(CassetteError):
    """A call cannot be recorded without writing a secret into the file."""

    code = "cassette_secret"

    def __init__(self, tool: str, where: str) -> None:
        self.tool = tool
        super().__init__(
            f"{tool} cannot be recorded: there is a secret in its {where}",
            hint="grant it instead of passing it as an argument; the output of tools is redacted",
        )


class CassetteFileError(CassetteError):
    """A file is not a cassette, or has an unknown version."""

    code = "cassette_file"

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        super().__init__(f"{path} is not a cassette: {reason}", hint="delete it to record it again")


def _shown(arguments: Any) -> str:
    text = json.dumps(arguments, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


_FORMAT = "skillpouch-cassette"
_VERSION = 1


def read_cassette(path: Path) -> list[RecordedCall]:
    """Return the calls of a cassette, in the order in which they were recorded."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise CassetteFileError(path, str(error)) from None
    if not isinstance(value, dict) or value.get("format") != _FORMAT:
        raise CassetteFileError(path, f"its format is not {_FORMAT!r}")
    if value.get("version") != _VERSION:
        raise CassetteFileError(path, f"its version is {value.get('version')!r}, not {_VERSION}")
    calls = value.get("calls")
    return [_call(path, each) for each in (calls if isinstance(calls, list) else [None])]


def _call(path: Path, value: Any) -> RecordedCall:
    try:
        gave = {name: dict(value[name]) for name in ("result", "error") if name in value}
        call = RecordedCall(
            key=value["key"], tool=value["tool"], arguments=value["arguments"], gave=gave
        )
        given(call)  # errors of the file are raised now, not in the middle of a test
    except (KeyError, TypeError, ValueError):
        raise CassetteFileError(path, f"not a recorded call: {value!r:.80}") from None
    return call


def write_cassette(path: Path, calls: Sequence[RecordedCall]) -> None:
    """Replace a cassette atomically: a reader sees the old one or the new one."""
    listed = [
        {"tool": call.tool, "arguments": call.arguments, "key": call.key, **call.gave}
        for call in calls
    ]
    value = {"format": _FORMAT, "version": _VERSION, "calls": listed}
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123 - a descriptor
            file.write(json.dumps(value, indent=2) + "\n")
        # Readable as a file of a project, not private as a temporary file.
        Path(beside).chmod(0o644)
        os.replace(beside, path)  # noqa: PTH105 - both are names
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise


Mode = Literal["auto", "record", "replay"]


@contextmanager
def cassette(path: str | PathLike[str], *, mode: Mode = "auto") -> Iterator["Cassette"]:
    """Answer every call of this process inside the block from a file, or record it there.

    `auto` replays a file that exists and records one that does not; `record` records a new file;
    `replay` never runs a tool. Replayed calls are checked like any other, but nothing runs: no file
    is written, nobody is asked, no secret is needed. A call that was not recorded fails the test:
    at once, and again at the end of the block if the error was caught. A block that fails records
    nothing.
    """
    if mode not in get_args(Mode):
        raise ValueError(f"mode is {mode!r}: there are {', '.join(get_args(Mode))}")
    file = Path(path)
    replays = mode == "replay" or (mode == "auto" and file.exists())
    made = Cassette(file, read_cassette(file) if replays else None)
    with intercepted_by(made):
        yield made
    made.finish()


class Cassette:
    """The calls of one block; `calls` are the recorded ones, `unused` those not replayed."""

    def __init__(self, path: Path, recorded: list[RecordedCall] | None) -> None:
        self.path = path
        self.replays = recorded is not None
        self.calls = list(recorded or ())
        self._left = list(self.calls)
        self._trouble: CassetteError | None = None
        self._forgotten = False
        # An agent may make calls at the same time from several threads.
        self._lock = threading.Lock()

    @property
    def unused(self) -> list[RecordedCall]:
        return list(self._left) if self.replays else []

    def answer(self, call: ToolCall) -> ToolResult | None:
        """Return the recorded result of a call; None while recording."""
        if not self.replays:
            return None
        result = given(self._take(call))
        if isinstance(result, SkillpouchError):
            raise result
        if call.on_output is not None:
            call.on_output("stdout", result.stdout.encode(errors="replace"))
            call.on_output("stderr", result.stderr.encode(errors="replace"))
        return result

    def keep(self, call: ToolCall, ended: ToolResult | SkillpouchError, redactor: Redactor) -> None:
        """Record the result or the error of a call."""
        if self.replays:
            return
        where = _secret_in(call, ended, redactor)
        if where:
            raise self._failed(CassetteSecretError(call.tool.id, where))
        with self._lock:
            self.calls.append(record_of(call, ended))

    def forget(self) -> None:
        """Write and raise nothing at the end: the test has failed already."""
        self._forgotten = True

    def finish(self) -> None:
        """Write what was recorded; raise an error of the cassette that was caught on the way."""
        if self._forgotten:
            return
        if self._trouble is not None:
            raise self._trouble
        if not self.replays:
            write_cassette(self.path, self.calls)

    def _take(self, call: ToolCall) -> RecordedCall:
        key = key_of(call)
        with self._lock:
            for record in self._left:
                if record.key == key:
                    self._left.remove(record)
                    return record
        tool = call.tool.id
        same = [record for record in self.calls if record.tool == tool]
        times = sum(record.key == key for record in same)
        recorded = [record.arguments for record in same]
        raise self._failed(
            CassetteMissError(self.path, tool, call.said, recorded=recorded, times=times)
        )

    def _failed(self, error: CassetteError) -> CassetteError:
        self._trouble = self._trouble or error
        return error


def _secret_in(call: ToolCall, ended: ToolResult | SkillpouchError, redactor: Redactor) -> str:
    """Return where a call contains a secret; results are redacted already."""
    if redactor.value(call.said) != call.said:
        return "arguments"
    if isinstance(ended, SkillpouchError):
        said = f"{ended}\n{ended.hint}"
        return "error" if redactor.text(said) != said else ""
    spoiled = any(redactor.data(each.data) != each.data for each in ended.attachments)
    return "attachments" if spoiled else ""
