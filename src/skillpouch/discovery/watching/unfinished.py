"""Whether files were caught half-written: what was lost since the version that is served."""

import ast
import warnings
from pathlib import Path

from skillpouch.discovery.skill_versions import SkillVersion
from skillpouch.problems import Problem
from skillpouch.tools import Script

# Besides errors: what the beginning of a SKILL.md or of a plugin.json looks like.
_SIGNS = {"frontmatter-missing", "frontmatter-unclosed", "description-missing", "plugin-invalid"}


def what_was_lost(before: SkillVersion, after: SkillVersion) -> list[Problem]:
    """Return what is wrong with a new version and was not with the one before; [] if it is whole.

    Somebody who means it to be wrong has the old version served until it is mended.
    """
    known = {(problem.path, problem.code) for problem in before.problems}
    lost = [each for each in after.problems if _is_sign(each) and _key(each) not in known]
    return [*lost, *_broken_scripts(before, after)]


def has_lost_scripts(before: SkillVersion, after: SkillVersion) -> bool:
    """Tell whether tools are gone because their scripts are: for good, or while they are saved."""
    there = {tool.id for tool in after.tools.tools}
    gone = [tool.runs for tool in before.tools.tools if tool.id not in there]
    return any(isinstance(runs, Script) and not runs.path.exists() for runs in gone)


def _key(problem: Problem) -> tuple[str, str]:
    return problem.path, problem.code


def _is_sign(problem: Problem) -> bool:
    return problem.severity == "error" or problem.code in _SIGNS


def _broken_scripts(before: SkillVersion, after: SkillVersion) -> list[Problem]:
    """Look at the scripts of tools: those that are empty or no Python now, and were not before."""
    was_broken = {
        _in_skill(script, before) for script in _scripts(before) if _fault(script, before)
    }
    found = []
    for script in _scripts(after):
        problem = _fault(script, after)
        if problem is not None and _in_skill(script, after) not in was_broken:
            found.append(problem)
    return found


def _scripts(version: SkillVersion) -> list[Script]:
    runs = [tool.runs for tool in version.tools.tools]
    return list({each.file: each for each in runs if isinstance(each, Script)}.values())


def _in_skill(script: Script, version: SkillVersion) -> str:
    return script.file.removeprefix(f"{version.skill.home}/")


def _fault(script: Script, version: SkillVersion) -> Problem | None:
    folder = version.copy.folder if version.copy else str(version.skill.home)
    try:
        data = Path(folder, _in_skill(script, version)).read_bytes()
    except OSError:
        return None  # reading the tools has said so
    if not data.strip():
        message = "the script is empty"
        return Problem(path=script.file, code="script-empty", severity="error", message=message)
    if script.language == "python" and (error := _syntax_error(data)):
        message = f"not valid Python: {error.msg}"
        return Problem(
            path=script.file,
            code="script-syntax",
            severity="error",
            message=message,
            line=error.lineno,
        )
    return None


def _syntax_error(data: bytes) -> SyntaxError | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(data)
    except SyntaxError as error:
        return error
    except (ValueError, RecursionError, MemoryError) as error:
        return SyntaxError(str(error) or "nested too deeply")
    return None
