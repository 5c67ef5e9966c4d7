"""Why a program could not be started, in words that name what to change."""

import errno
import os

from skillpouch.execution.command import Command


def why_not_started(command: Command, number: int) -> str:
    """Say what kept a program from starting; of a variable only its name, which is no secret."""
    wrong = [name for name, value in command.env.items() if not _can_be_set(name, value)]
    if number == errno.EINVAL and wrong:
        said = "a zero byte, half a character, or a name that is none"
        return f"the variable {wrong[0]!r} cannot be set: it holds {said}"
    return os.strerror(number)


def _can_be_set(name: str, value: str) -> bool:
    try:
        data = os.fsencode(f"{name}{value}")
    except UnicodeEncodeError:
        return False
    return bool(name) and "=" not in name and b"\0" not in data
