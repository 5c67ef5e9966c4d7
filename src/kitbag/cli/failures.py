"""Which exit code stands for which error."""

from kitbag.environments.errors import DependencyError
from kitbag.errors import CallDeniedError, CommandStartError, KitbagError, SandboxUnavailableError
from kitbag.shell.errors import BashMissingError

EXIT_FAILED = 1
EXIT_WRONG_CALL = 2
EXIT_DENIED = 3
EXIT_NOT_STARTED = 4


def exit_code_of(error: KitbagError) -> int:
    """Return the exit code that the command line promises for an error."""
    if isinstance(error, CallDeniedError):
        return EXIT_DENIED
    if isinstance(
        error, SandboxUnavailableError | CommandStartError | DependencyError | BashMissingError
    ):
        return EXIT_NOT_STARTED
    return EXIT_WRONG_CALL
