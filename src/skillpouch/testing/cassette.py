"""Cassettes: the calls of a test are recorded once, and answered from the record ever after."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Literal, get_args

from skillpouch.calls import ToolCall
from skillpouch.errors import SkillpouchError
from skillpouch.results import ToolResult
from skillpouch.secrets.redaction import Redactor
from skillpouch.testing.cassette_file import read_cassette, write_cassette
from skillpouch.testing.errors import CassetteError, CassetteMissError, CassetteSecretError
from skillpouch.testing.recorded_calls import RecordedCall, given, key_of, record_of
from skillpouch.testing.tape import playing

Mode = Literal["auto", "record", "replay"]


@contextmanager
def cassette(path: str | PathLike[str], *, mode: Mode = "auto") -> Iterator["Cassette"]:
    """Answer every call of this process inside the block from a file, or record it there.

    `auto` replays a file that exists and records one that does not; `record` makes it anew;
    `replay` never runs a tool. Replayed calls are checked like any other, but nothing runs: no
    file is written, nobody is asked, no secret is needed. A call that is not on record fails the
    test, at once and, should somebody catch that, at the end of the block. A block that fails
    records nothing.
    """
    if mode not in get_args(Mode):
        raise ValueError(f"mode is {mode!r}: there are {', '.join(get_args(Mode))}")
    file = Path(path)
    replays = mode == "replay" or (mode == "auto" and file.exists())
    made = Cassette(file, read_cassette(file) if replays else None)
    with playing(made):
        yield made
    made.finish()


class Cassette:
    """The calls of one block; `calls` are those on record, `unused` those nobody asked for."""

    def __init__(self, path: Path, recorded: list[RecordedCall] | None) -> None:
        self.path = path
        self.replays = recorded is not None
        self.calls = list(recorded or ())
        self._left = list(self.calls)
        self._trouble: CassetteError | None = None
        self._forgotten = False
        # An agent makes its calls side by side, from whichever threads it has.
        self._lock = threading.Lock()

    @property
    def unused(self) -> list[RecordedCall]:
        return list(self._left) if self.replays else []

    def answer(self, call: ToolCall) -> ToolResult | None:
        """Return what is on record of a call; None while recording."""
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
        """Record what a call ended with."""
        if self.replays:
            return
        where = _secret_in(call, ended, redactor)
        if where:
            raise self._failed(CassetteSecretError(call.tool.id, where))
        with self._lock:
            self.calls.append(record_of(call, ended))

    def forget(self) -> None:
        """Write nothing and complain of nothing: the test failed before it was done."""
        self._forgotten = True

    def finish(self) -> None:
        """Write what was recorded; raise what went wrong and was caught by somebody else."""
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
    """Return where something is that a file must not hold; what is said is redacted already."""
    if redactor.value(call.said) != call.said:
        return "arguments"
    if isinstance(ended, SkillpouchError):
        said = f"{ended}\n{ended.hint}"
        return "error" if redactor.text(said) != said else ""
    spoiled = any(redactor.data(each.data) != each.data for each in ended.attachments)
    return "attachments" if spoiled else ""
