"""What a skill declares cannot be installed, and what to do about it."""

from collections.abc import Sequence

from skillpouch.errors import SkillpouchError


class DependencyError(SkillpouchError):
    """What a script declares it needs is not there and could not be put there; nothing ran."""

    code = "dependency"


class RequirementRefusedError(DependencyError):
    """A declaration of packages that Skillpouch does not install."""

    code = "requirement_refused"

    def __init__(self, path: str, reason: str, *, line: int | None = None) -> None:
        self.path = path
        self.line = line
        self.reason = reason
        where = f"{path}:{line}" if line else path
        super().__init__(
            f"{where}: {reason}",
            hint="name packages and versions only; they come from where you get packages yourself",
        )


class InstallError(DependencyError):
    """An environment could not be built; `output` is what the installer said last."""

    code = "install_failed"

    def __init__(
        self, skill: str, requirements: Sequence[str], reason: str, *, output: str = "", hint: str
    ) -> None:
        self.skill = skill
        self.requirements = tuple(requirements)
        self.reason = reason
        self.output = output
        wanted = ", ".join(requirements)
        said = f"\n{output}" if output else ""
        super().__init__(f"cannot install {wanted} for {skill}: {reason}{said}", hint=hint)
