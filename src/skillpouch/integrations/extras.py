"""What an integration needs that is not installed, and the command that installs it."""

from importlib.util import find_spec

from skillpouch.errors import SkillpouchError


class MissingExtraError(SkillpouchError, ImportError):
    """A framework that is not installed here."""

    code = "missing_extra"

    def __init__(self, package: str, command: str) -> None:
        self.package = package
        super().__init__(f"{package} is not installed", hint=f"install it: {command}")

    def __str__(self) -> str:
        # Whoever imports sees nothing but this.
        return f"{self.args[0]}: {self.hint.removeprefix('install it: ')}"


def require_extra(module: str, package: str, command: str) -> None:
    """Raise MissingExtraError unless `module` can be imported."""
    if find_spec(module) is None:
        raise MissingExtraError(package, command)
