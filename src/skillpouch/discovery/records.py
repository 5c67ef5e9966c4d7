"""The plain shapes in which skill files and problems are kept in the warm index."""

from collections.abc import Sequence
from typing import Any

from skillpouch.declarations.skill_md import SkillFile
from skillpouch.discovery.walk import Found
from skillpouch.problems import Problem
from skillpouch.skills import Skill, SkillMetadata

# Tuples, not mappings: at a thousand skills their decoding is what a warm start waits for.


Record = tuple[Any, ...]


def pack_skill_file(file: SkillFile) -> Record:
    """Make a plain value of a SKILL.md that was read."""
    problems = tuple(pack_problem(problem) for problem in file.problems)
    flags = (file.degraded, file.declarations_lost)
    return (file.stamp, file.name, tuple(file.metadata), *flags, problems)


def unpack_skill(found: Found, record: Record, root: str) -> tuple[Skill, Sequence[Problem]]:
    """Make a skill, and what was noticed about it, of a plain value."""
    _, name, fields, degraded, declarations_lost, problems = record
    metadata = SkillMetadata._make(fields)
    skill = Skill(
        name=f"{found.plugin}:{name}" if found.plugin else name,
        description=metadata.description,
        file=found.path,
        source=root,
        metadata=metadata,
        degraded=degraded,
        declarations_lost=declarations_lost,
    )
    return skill, [unpack_problem(found.path, each) for each in problems] if problems else ()


def pack_problem(problem: Problem) -> Record:
    """Make a plain value of a problem; its path is known from where it is kept."""
    return (problem.code, problem.severity, problem.message, problem.line)


def unpack_problem(path: str, record: Record) -> Problem:
    """Make a problem of a plain value."""
    code, severity, message, line = record
    return Problem(path=path, code=code, severity=severity, message=message, line=line)
