"""What is wrong with a skill that came as text, or with the place it is to be put."""

from collections.abc import Sequence
from pathlib import Path

from skillpouch.errors import SkillpouchError
from skillpouch.problems import Problem


class SkillTextError(SkillpouchError):
    """A text that is no skill; `problems` are all that is wrong with it."""

    code = "skill_text"

    def __init__(self, name: str, reason: str, problems: Sequence[Problem] = ()) -> None:
        self.name = name
        self.problems = tuple(problems)
        lines = [
            f"line {problem.line}: {problem.message}" if problem.line else problem.message
            for problem in self.problems
        ]
        super().__init__(
            f"the text of skill {name!r} cannot be used: {'; '.join((reason, *lines))}",
            hint="begin it with '---', `name:`, `description:`, its `tools:` and '---'",
        )


class SkillNameError(SkillpouchError):
    """A name that no skill can have."""

    code = "skill_name"

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"{name!r:.80} is not a name for a skill",
            hint="use 1-64 letters, digits, '_' and '-', such as 'word-count'",
        )


class SkillFolderError(SkillpouchError):
    """The folder for skills that come as text cannot be used."""

    code = "skill_folder"

    def __init__(self, path: Path | None, reason: str, *, hint: str = "") -> None:
        self.path = path
        where = path or "the folder for skills that come as text"
        super().__init__(f"{where} cannot be used: {reason}", hint=hint)
