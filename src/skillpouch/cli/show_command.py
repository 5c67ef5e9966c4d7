"""`skillpouch show`: prints all about one skill or one tool."""

from pathlib import Path

import click

from skillpouch.cli.options import common_options, manager_for
from skillpouch.cli.output import (
    arguments_of,
    describe_tool,
    description_of,
    print_json,
    print_problems,
    print_table,
    whole_skill,
    whole_tool,
)
from skillpouch.errors import SkillNotFoundError, UnknownToolError
from skillpouch.manager import SkillManager
from skillpouch.skills import Skill
from skillpouch.text import clean
from skillpouch.tools import Tool, short_name


@click.command("show")
@click.argument("name")
@common_options
def command(name: str, roots: tuple[Path, ...], as_json: bool) -> None:
    """Show the skill or tool called NAME: what it takes, what it runs, what was noticed."""
    manager = manager_for(roots, builtins=True)
    skill = _skill(manager, name)
    if skill is None:
        tool = _tool(manager, name)
        if as_json:
            print_json(whole_tool(tool))
        else:
            describe_tool(tool)
    elif as_json:
        print_json(whole_skill(skill, manager))
    else:
        _describe_skill(skill, manager)


def _skill(manager: SkillManager, name: str) -> Skill | None:
    try:
        return manager.get_skill(name)
    except SkillNotFoundError:
        return None


def _tool(manager: SkillManager, name: str) -> Tool:
    try:
        return manager.get_tool(name)
    except UnknownToolError:
        known = [skill.name for skill in manager.list_skills()]
        tools = manager.tools
        for tool in tools:
            known += [tool.id, short_name(tool.skill, tool.id)]
        count = sum(bool(tool.skill) for tool in tools)
        unknown = UnknownToolError(name, known=known, count=count, kind="skill or tool")
        unknown.look_below(manager.named_roots)
        raise unknown from None


def _describe_skill(skill: Skill, manager: SkillManager) -> None:
    click.echo(f"{skill.name}\n\n  {skill.description}\n")
    facts = {
        "folder": str(skill.home),
        "version": skill.metadata.version,
        "licence": skill.metadata.license,
        "compatibility": skill.metadata.compatibility,
        "allowed tools": ", ".join(skill.metadata.allowed or ()),
        "digest": skill.digest,
    }
    for label, value in facts.items():
        if value:
            click.echo(f"  {label + ':':<16}{value}")
    tools = manager.get_skill_tools(skill.name)
    if tools:
        click.echo("\n  tools:")
        rows = [(tool.id, arguments_of(tool), description_of(tool)) for tool in tools]
        print_table(("tool", "arguments", "description"), rows)
    click.echo(f"\n{clean(skill.body).strip()}")
    home = f"{skill.home}/"
    print_problems([p for p in manager.problems if p.path.startswith(home)])
