"""`skillpouch new`: writes a new skill that passes every check."""

from pathlib import Path

import click

from skillpouch.checks.scaffold import LANGUAGES, write_skill
from skillpouch.cli.options import common_options
from skillpouch.cli.output import print_json


@click.command("new")
@click.argument("name")
@click.option(
    "--language",
    type=click.Choice(LANGUAGES),
    default="python",
    show_default=True,
    help="The language of the first script.",
)
@click.option("--description", default="", help="What the skill does and when to use it.")
@common_options
def command(
    name: str, language: str, description: str, roots: tuple[Path, ...], as_json: bool
) -> None:
    """Write a new skill called NAME into `skills/`, or into the last --root."""
    root = roots[-1] if roots else Path("skills")
    home = write_skill(root, name, language=language, description=description)
    files = sorted(str(file) for file in home.rglob("*") if file.is_file())
    if as_json:
        print_json({"name": name, "path": str(home), "files": files})
        return
    click.echo("\n".join(files))
    click.echo(f"next: edit SKILL.md, then `skillpouch check --strict {home}`", err=True)
