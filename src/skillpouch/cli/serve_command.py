"""`skillpouch serve`: the same tools for agents in other programs and languages."""

from importlib import import_module

import click

_SERVERS = ("mcp", "grpc")


class _Servers(click.Group):
    """Knows the servers by name; a server's file is imported when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click calls it so
        return list(_SERVERS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _SERVERS:
            raise click.exceptions.NoSuchCommand(cmd_name, possibilities=_SERVERS, ctx=ctx)
        command: click.Command = import_module(f"skillpouch.cli.serve_{cmd_name}").command
        return command


@click.group("serve", cls=_Servers)
def command() -> None:
    """Serve tools and skills to agents, until told to stop.

    SIGTERM and Ctrl-C let calls that run finish; a second one ends them.
    """
