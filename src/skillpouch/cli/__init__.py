"""The command line: one file per command, each loaded when it is called."""

import sys
import warnings
from importlib import import_module
from pathlib import Path

import click

import skillpouch
from skillpouch.cli.options import EXIT_WRONG_CALL, exit_code_of
from skillpouch.errors import SkillpouchError

# What each is for, as `--help` shows it: said here so that showing it loads none of them.
_COMMANDS = {
    "list": "List skills and their tools.",
    "show": "Show the skill or tool called NAME: what it takes and runs.",
    "call": "Run TOOL with arguments, confined: no network, your files out of reach.",
    "script": "Run TEXT as a bash script whose commands are tools.",
    "check": "Check the skills below PATHS, or in the usual folders.",
    "new": "Write a new skill called NAME into `skills/`, or into the folder you name.",
    "trust": "Show what the skill NAME asks for, and grant it.",
    "changes": "List the calls that can be applied, discarded or undone here.",
    "diff": "Show what CALL changed, or would change if it is applied.",
    "apply": "Bring what the staged CALL changed into the workspace.",
    "discard": "Drop what the staged CALL changed.",
    "undo": "Take back what CALL changed; without CALL, the last call that did.",
    "jobs": "List jobs, the newest first: calls that were started and left.",
    "approvals": "List the questions that wait for an answer.",
    "approve": "Approve the question ID, and let its job go on.",
    "deny": "Deny the question ID: its job fails.",
    "journal": "Show the latest calls, the newest last.",
    "environments": "List the packages that were installed for skills.",
    "doctor": "Show the protections that hold on this machine, interpreters, folders.",
    "mcp": "Show the MCP servers of your mcp.toml, and what they offer.",
    "serve": "Serve tools and skills to agents, until told to stop.",
}


# Commands that share a file, by the name of the file.
_TOGETHER = {
    **dict.fromkeys(("diff", "apply", "discard", "undo", "changes"), "changes"),
    **dict.fromkeys(("approvals", "approve", "deny"), "approvals"),
}


class _LazyGroup(click.Group):
    """Knows its commands by name; a command's file is imported when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click calls it so
        return list(_COMMANDS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as above
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name.startswith("-"):
            return None
        if cmd_name not in _COMMANDS:
            raise click.exceptions.NoSuchCommand(cmd_name, possibilities=_COMMANDS, ctx=ctx)
        file = import_module(f"skillpouch.cli.{_TOGETHER.get(cmd_name, cmd_name)}_command")
        name = f"{cmd_name}_command" if cmd_name in _TOGETHER else "command"
        command: click.Command = getattr(file, name)
        return command


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(skillpouch.__version__, "-V", "--version", prog_name="skillpouch")
def cli() -> None:
    """Turn folders of agent skills into typed tools.

    Results go to standard output, everything else to standard error. Exit codes: 0 fine,
    1 the tool or the check failed, 2 wrong call, 3 denied, 4 could not be started.
    """


def main() -> None:
    """Run one command and leave the process with its exit code."""
    # Without the file and line of ours that Python would name: they help nobody here.
    warnings.showwarning = lambda said, *_, **__: click.echo(f"warning: {said}", err=True)
    try:
        sys.exit(cli.main(standalone_mode=False))
    except click.ClickException as error:
        error.show()
        sys.exit(EXIT_WRONG_CALL)
    except click.Abort:
        click.echo("stopped", err=True)
        sys.exit(130)  # what a shell reports for Ctrl-C
    except SkillpouchError as error:
        click.echo(f"error: {error}", err=True)
        if error.hint:
            click.echo(f"hint: {error.hint}", err=True)
        sys.exit(exit_code_of(error))
    except FileNotFoundError:
        if _has_current_folder():
            raise
        click.echo("error: the current folder was removed", err=True)
        click.echo("hint: change to a folder that is there, such as `cd ~`", err=True)
        sys.exit(EXIT_WRONG_CALL)
    except BrokenPipeError:
        # The reader of our output has gone (`skillpouch list | head`): nothing left to say.
        sys.stderr.close()
        sys.exit(0)


def _has_current_folder() -> bool:
    try:
        return Path.cwd().is_absolute()
    except FileNotFoundError:
        return False
