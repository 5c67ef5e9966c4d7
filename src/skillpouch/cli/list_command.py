"""`skillpouch list`: lists every skill and tool that an agent would get."""

from pathlib import Path

import click

from skillpouch.cli.options import common_options, manager_for
from skillpouch.cli.output import (
    arguments_of,
    as_dict,
    description_of,
    print_json,
    print_problems,
    print_table,
    skill_summary,
    tool_summary,
)
from skillpouch.manager import SkillManager


@click.command("list")
@click.option(
    "--builtin", is_flag=True, help="List Skillpouch's own tools, too: bash, read, write …"
)
@common_options
def command(builtin: bool, roots: tuple[Path, ...], as_json: bool) -> None:
    """List skills and their tools. Runs nothing."""
    manager = manager_for(roots, builtins=builtin)
    if as_json:
        _print_json(manager)
    else:
        _print_text(manager)


def _print_json(manager: SkillManager) -> None:
    tools = manager.tools  # all at once: one skill after the other takes far longer
    skills = manager.list_skills()
    print_json(
        {
            "skills": [skill_summary(each, manager.get_skill_tools(each.name)) for each in skills],
            "tools": [tool_summary(tool) for tool in tools],
            "problems": [as_dict(problem) for problem in manager.problems],
        }
    )


def _print_text(manager: SkillManager) -> None:
    rows = [(tool.id, arguments_of(tool), description_of(tool)) for tool in manager.tools]
    without = [
        (skill.name, "", skill.description)
        for skill in manager.list_skills()
        if not manager.get_skill_tools(skill.name)
    ]
    print_table(("tool", "arguments", "description"), rows + without)
    skills = len(manager.list_skills())
    click.echo(f"{_count(skills, 'skill')}, {_count(len(rows), 'tool')}", err=True)
    serious = [problem for problem in manager.problems if problem.severity == "error"]
    print_problems(serious)
    others = len(manager.problems) - len(serious)
    if others:
        click.echo(f"{_count(others, 'lesser problem')}: `skillpouch check` shows them", err=True)
    if not skills:
        places = ", ".join(str(root) for root in manager.roots)
        click.echo(f"hint: searched {places}; use --root DIR or SKILLPOUCH_PATH", err=True)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
