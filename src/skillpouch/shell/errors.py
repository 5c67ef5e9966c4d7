"""The errors of a scripted tool, of its commands, and of their arguments."""

from collections.abc import Iterable

from skillpouch.errors import PortableError, SkillpouchError, nearest


class CommandNameError(SkillpouchError):
    """A name that no command of a script can have."""

    code = "command_name"

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        super().__init__(f"{name!r} cannot be a command: {reason}", hint="give it another name")


class StateTokenError(SkillpouchError):
    """A state that this tool did not give away, or that was changed since."""

    code = "state_token"

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the state cannot be used: {reason}",
            hint="pass the `state` of an earlier response of the same tool, or none",
        )


class ToolError(PortableError):
    """Raise it in a callback to tell a script what went wrong, and what to do about it.

    `code` is the exit code that the command has in the script.
    """

    def __init__(self, message: str, code: int = 1, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint


_LONGEST = 60


def shown(text: str) -> str:
    """Return a value as a message shows it: quoted, and not a megabyte long."""
    return repr(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…")


class FlagError(SkillpouchError):
    """Words that cannot be read as the arguments of a command."""

    code = "invalid_flags"


class UnknownFlagError(FlagError):
    """A flag that a closed schema does not know; `nearest` are flags that may have been meant."""

    code = "unknown_flag"

    def __init__(self, flag: str, *, known: Iterable[str], usage: str) -> None:
        self.flag = flag
        self.nearest = near_flags(flag, known)
        meant = f"did you mean {' or '.join(self.nearest)}?" if self.nearest else ""
        super().__init__(f"no flag {shown(flag)[1:-1]}", hint=meant or f"usage: {usage}")


def near_flags(flag: str, known: Iterable[str]) -> list[str]:
    """Return the flags that a word was probably meant to be, best first."""
    spelled = {name.replace("_", "-").lower(): f"--{name}" for name in known}
    found = nearest(flag[:_LONGEST].lstrip("-").replace("_", "-").lower(), spelled, most=1)
    return [spelled[name] for name in found]


class FlagValueError(FlagError):
    """A value that is no value of the flag's type."""

    code = "flag_value"

    def __init__(self, flag: str, value: str, expected: str, *, hint: str = "") -> None:
        self.flag = flag
        self.value = value
        self.expected = expected
        super().__init__(f"{flag}: {shown(value)} is not {expected}", hint=hint)


class MissingFlagValueError(FlagError):
    code = "flag_needs_value"

    def __init__(self, flag: str, expected: str) -> None:
        self.flag = flag
        super().__init__(f"{flag} needs a value: {expected}", hint=f"write {flag} VALUE")


class SwitchValueError(FlagError):
    """A flag that is given by its presence alone."""

    code = "flag_takes_no_value"

    def __init__(self, flag: str) -> None:
        self.flag = flag
        super().__init__(f"{flag} takes no value", hint=f"write {flag} alone")


class UnexpectedWordError(FlagError):
    """A word for which no parameter is left."""

    code = "unexpected_word"

    def __init__(self, word: str, *, hint: str) -> None:
        self.word = word
        super().__init__(f"unexpected word {shown(word)}", hint=hint)


class NotAnObjectError(FlagError):
    """Text given as JSON arguments that is not a JSON object."""

    code = "not_a_json_object"

    def __init__(self, flag: str, text: str) -> None:
        self.flag = flag
        found = shown(text) if text.strip() else "nothing"
        super().__init__(
            f"{flag} needs a JSON object, and found {found}",
            hint="""such as '{"key": "value"}', in single quotes""",
        )
