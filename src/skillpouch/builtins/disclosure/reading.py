"""`read_skill_file`: a file of a skill, whatever lies beside the skill out of reach."""

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from skillpouch.builtins.disclosure.marking import marked
from skillpouch.builtins.disclosure.offered import offered_skill
from skillpouch.builtins.workspace.answer import Answer
from skillpouch.builtins.workspace.read import show
from skillpouch.calls import ToolCall
from skillpouch.errors import CallDeniedError, OutsideWorkspaceError, ToolFaultError
from skillpouch.workspace.files import WorkspaceFiles

if TYPE_CHECKING:
    from skillpouch.builtins.disclosure.tools import Skills

_LISTED = "`activate_skill` lists the files of a skill"


class OutsideSkillError(CallDeniedError):
    """A path that leads out of the skill, or to a hidden file, in which people keep secrets."""

    code = "outside_skill"

    def __init__(self, path: str, skill: str, reason: str) -> None:
        self.path = path
        self.skill = skill
        super().__init__(
            f"{path!r} is not shown: {reason} {skill!r}",
            hint="name a file that `activate_skill` lists, relative to the folder of the skill",
        )


def read_one(call: ToolCall, found: "Skills") -> Answer:
    """Return the lines asked for, marked with where they come from."""
    name, path = call.arguments["skill"], call.arguments["path"]
    files = WorkspaceFiles(Path(os.path.realpath(offered_skill(found.skills, name).home)))
    try:
        with files.reading(path) as opened:
            if any(part.startswith(".") for part in opened.path.split("/")):
                raise OutsideSkillError(path, name, "it is a hidden file of the skill")
            answer = show(call, opened)
            real = opened.path
    except OutsideWorkspaceError:
        raise OutsideSkillError(path, name, "it is outside the skill") from None
    except ToolFaultError as fault:
        meant = fault.hint if fault.hint.startswith("did you mean") else _LISTED
        raise ToolFaultError(fault.kind, str(fault), hint=meant) from None
    return replace(answer, text=marked("skill_file", answer.text, skill=name, path=real))
