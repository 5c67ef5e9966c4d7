"""`skillpouch serve`: serves the tools to agents in other programs; limits and logs of servers."""

import json
import logging
import sys
import time
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import click

from skillpouch.policy.loading import read_project

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


def said_limits(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the limits that somebody has said; a server has its own for the others."""
    table = read_project(Path.cwd()).server
    wanted = {
        "most_running": (said["most_running"], table.most_running),
        "drain_seconds": (said["drain"], table.drain_seconds),
    }
    if "most_per_session" in said:
        wanted["most_running_per_session"] = (said["most_per_session"], table.most_per_session)
    found = {name: [v for v in pair if v is not None] for name, pair in wanted.items()}
    return {name: values[0] for name, values in found.items() if values}


LogFormat = Literal["text", "json"]

_QUIET = (
    "mcp",
    "grpc",
    "uvicorn",
    "httpx2",
    "anyio",
    "asyncio",
)  # theirs only when something is wrong


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["trace"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False)


def log_to_stderr(shape: LogFormat) -> None:
    """Send the log of this process to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    plain = logging.Formatter("skillpouch: %(message)s")
    handler.setFormatter(_JsonLines() if shape == "json" else plain)
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.ERROR)
