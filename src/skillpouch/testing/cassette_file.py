"""The file of a cassette: read as a whole, written as a whole or not at all."""

import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from skillpouch.testing.errors import CassetteFileError
from skillpouch.testing.recorded_calls import RecordedCall, given

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
        given(call)  # what cannot be replayed is said now, not in the middle of a test
    except (KeyError, TypeError, ValueError):
        raise CassetteFileError(path, f"not a recorded call: {value!r:.80}") from None
    return call


def write_cassette(path: Path, calls: Sequence[RecordedCall]) -> None:
    """Put a cassette in its place; whoever reads meanwhile sees the old one or the new one."""
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
        Path(beside).chmod(0o644)  # part of a project, not a temporary file
        os.replace(beside, path)  # noqa: PTH105 - both are names
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise
