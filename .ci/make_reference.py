"""Writes docs/reference/cli.md from the commands themselves: `make reference`."""

from collections.abc import Iterator
from pathlib import Path

import click

from skillpouch.cli import cli

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "cli.md"
_HEAD = """# Command line

Made from `skillpouch --help` by `make reference`; edit the commands, not this page.

Results go to standard output, everything else to standard error.

| exit code | meaning |
| --- | --- |
| 0 | fine |
| 1 | the tool ran and failed; for `check`: a skill was skipped, or with `--strict` any problem |
| 2 | wrong call: unknown name, invalid arguments, usage |
| 3 | denied |
| 4 | could not be started |
"""


def reference() -> str:
    """Return the page: the help of the program and of each command."""
    top = click.Context(cli, info_name="skillpouch", **cli.context_settings)
    parts = [_HEAD, f"## skillpouch\n\n```text\n{cli.get_help(top)}\n```\n"]
    return "\n".join([*parts, *_commands_of(cli, top)])


def _commands_of(group: click.Group, above: click.Context) -> Iterator[str]:
    for name in group.list_commands(above):
        command = group.get_command(above, name)
        assert command is not None
        context = click.Context(command, info_name=name, parent=above)
        level = "#" * (2 if above.parent is None else 3)
        yield f"{level} {context.command_path}\n\n```text\n{command.get_help(context)}\n```\n"
        if isinstance(command, click.Group):
            yield from _commands_of(command, context)


if __name__ == "__main__":
    PAGE.write_text(reference())
