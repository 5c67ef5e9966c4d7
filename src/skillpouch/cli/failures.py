"""Which exit code stands for which error."""

from skillpouch.errors import (
    CallDeniedError,
    CommandStartError,
    SandboxUnavailableError,
    SkillpouchError,
)
from skillpouch.provision.packages.errors import DependencyError
from skillpouch.shell.errors import BashMissingError

EXIT_FAILED = 1
EXIT_WRONG_CALL = 2
EXIT_DENIED = 3
EXIT_NOT_STARTED = 4


def exit_code_of(error: SkillpouchError) -> int:
    """Return the exit code that the command line promises for an error."""
    if isinstance(error, CallDeniedError):
        return EXIT_DENIED
    if isinstance(
        error, SandboxUnavailableError | CommandStartError | DependencyError | BashMissingError
    ):
        return EXIT_NOT_STARTED
    return EXIT_WRONG_CALL
