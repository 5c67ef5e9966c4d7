"""The JSON shapes in which skill files and problems are kept in the warm index."""

from typing import Any

from kitbag.declarations.skill_md import SkillFile
from kitbag.problems import Problem
from kitbag.skills import SkillMetadata

# Lists, not mappings: at a thousand skills their decoding is what a warm start waits for.


def pack_skill_file(file: SkillFile) -> list[Any]:
    """Make JSON of a SKILL.md that was read."""
    metadata = file.metadata
    return [
        file.stamp,
        file.name,
        metadata.name,
        metadata.description,
        metadata.allowed_tools,
        metadata.version,
        metadata.license,
        metadata.compatibility,
        metadata.frontmatter,
        file.degraded,
        file.declarations_lost,
        [pack_problem(problem) for problem in file.problems],
    ]


def unpack_skill_file(path: str, record: list[Any]) -> SkillFile:
    """Make a SKILL.md that was read of JSON."""
    stamp, name, written, description, allowed, version, license_, compatibility, *rest = record
    frontmatter, degraded, declarations_lost, problems = rest
    return SkillFile(
        name=name,
        metadata=SkillMetadata(
            name=written,
            description=description,
            allowed_tools=None if allowed is None else tuple(allowed),
            version=version,
            license=license_,
            compatibility=compatibility,
            frontmatter=frontmatter,
        ),
        stamp=stamp,
        degraded=degraded,
        declarations_lost=declarations_lost,
        problems=tuple(unpack_problem(path, problem) for problem in problems) if problems else (),
    )


def pack_problem(problem: Problem) -> list[Any]:
    """Make JSON of a problem; the path is known from where it is kept."""
    return [problem.code, problem.severity, problem.message, problem.line]


def unpack_problem(path: str, record: list[Any]) -> Problem:
    """Make a problem of JSON."""
    code, severity, message, line = record
    return Problem(path=path, code=code, severity=severity, message=message, line=line)
