"""What can be wrong with a scripted tool, before any script has run."""

from skillpouch.errors import PortableError, SkillpouchError


class BashMissingError(SkillpouchError):
    """The engine that runs bash scripts is an extra."""

    code = "bash_missing"

    def __init__(self) -> None:
        super().__init__(
            "bash scripts need the engine 'bashkit', which is not installed",
            hint="pip install 'skillpouch[bash]'",
        )


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
