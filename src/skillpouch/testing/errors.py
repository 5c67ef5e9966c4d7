"""What is wrong with a cassette. These fail a test: no integration may tell them to a model."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from skillpouch.errors import PortableError

_MOST_SHOWN = 5
_LONGEST = 200


class CassetteError(PortableError, AssertionError):
    """Not a SkillpouchError: an agent is told of those and goes on, and its test would pass."""

    code: ClassVar[str] = "cassette"

    def __init__(self, message: str, *, hint: str = "") -> None:
        self.hint = hint
        super().__init__(f"{message}\nhint: {hint}" if hint else message)


class CassetteMissError(CassetteError):
    """A call that was not recorded; `recorded` are arguments of the same tool that were.

    `times` is how often this very call was recorded: each answer is given once.
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
        again = 'delete the file, or say mode="record" once, to record it again'
        if times:
            message = f"{path}: {call} was recorded {times} times and is called once more"
            super().__init__(message, hint=again)
            return
        others = "; ".join(_shown(each) for each in self.recorded[:_MOST_SHOWN])
        known = f"{tool} was recorded with {others}" if others else f"no call of {tool} is in it"
        super().__init__(f"{path}: no recorded call of {call}", hint=f"{known}; {again}")


class CassetteSecretError(CassetteError):
    """A call that cannot be recorded without giving a secret away."""

    code = "cassette_secret"

    def __init__(self, tool: str, where: str) -> None:
        self.tool = tool
        super().__init__(
            f"{tool} cannot be recorded: there is a secret in its {where}",
            hint="give it by a grant instead of an argument; what a tool says is redacted",
        )


class CassetteFileError(CassetteError):
    """A file that is no cassette, or of a version that is not known here."""

    code = "cassette_file"

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        super().__init__(f"{path} is no cassette: {reason}", hint="delete it to record it again")


def _shown(arguments: Any) -> str:
    text = json.dumps(arguments, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
