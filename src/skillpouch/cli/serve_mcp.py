"""`skillpouch serve mcp`: serves tools, prompts and skills over standard streams or HTTP."""

import logging
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from skillpouch.cli.options import DEFINE_TOOLS, UNDO_TOOLS, common_options
from skillpouch.cli.output import print_json
from skillpouch.cli.serve_command import LogFormat, log_to_stderr, said_limits
from skillpouch.manager import SkillManager
from skillpouch.mcp_client import read_user_mcp
from skillpouch.servers.addresses import parse_address

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillpouch.servers.lifecycle import Stop
    from skillpouch.servers.mcp.server import McpServer
    from skillpouch.servers.mcp.settings import HttpSettings, LongCalls
    from skillpouch.tools import Tool

_log = logging.getLogger("skillpouch.serve")

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_HTTP_OPTIONS = (
    click.option("--http", metavar="HOST:PORT", help="Serve HTTP here; port 0 picks a free one."),
    click.option("--token-file", type=_FILE, help="Admit only clients with one of these tokens."),
    click.option("--tls-cert", type=_FILE, help="Serve https with this certificate (PEM)."),
    click.option("--tls-key", type=_FILE, help="Its key, unless it is in the same file."),
    click.option("--tls-client-ca", type=_FILE, help="Ask clients for a certificate of this CA."),
    click.option("--allow-host", multiple=True, metavar="NAME", help="Another Host to accept."),
    click.option("--allow-origin", multiple=True, metavar="ORIGIN", help="A web page to accept."),
)
_TOOL_OPTIONS = (
    click.option("--builtin", is_flag=True, help="Serve Skillpouch's own tools, too: bash, read …"),
    click.option("--define-tools", is_flag=True, help=DEFINE_TOOLS),
    click.option("--undo-tools", is_flag=True, help=UNDO_TOOLS),
    click.option("--script-tool", is_flag=True, help="Add one tool: a bash script over all tools."),
    click.option("--only-script-tool", is_flag=True, help="Serve that tool and no other."),
    click.option("--no-mcp", is_flag=True, help="Do not join the servers in your mcp.toml."),
)
_SERVING_OPTIONS = (
    click.option(
        "--workspace",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        metavar="DIR",
        help="Folder in which tools work and may write; by default the current one.",
    ),
    click.option("--most-running", type=click.IntRange(1, 4096), help="Calls at once: 64."),
    click.option("--drain", type=click.FloatRange(0), help="Seconds for calls to finish: 30."),
    click.option(
        "--soft-limit",
        type=click.FloatRange(0),
        metavar="SECONDS",
        help="Answer a call that takes longer with the id of a job: 45; 0 = never.",
    ),
    click.option(
        "--job-tools", is_flag=True, help="List job_wait, job_output, job_cancel at once."
    ),
    click.option(
        "--approvals",
        type=click.Choice(["client", "owner", "nobody"]),
        help="Who may approve calls: the person at the client, only you (`skillpouch approve`), or"
        " nobody. By default the client, over HTTP you.",
    ),
    click.option("--log", "log_format", type=click.Choice(["text", "json"]), default="text"),
    click.option("--install", is_flag=True, help="Print settings for common hosts, and exit."),
)


def _with_options(command: Any) -> Any:
    for option in reversed((*_HTTP_OPTIONS, *_TOOL_OPTIONS, *_SERVING_OPTIONS)):
        command = option(command)
    return command


@click.command("mcp")
@_with_options
@common_options
def command(**said: Any) -> None:
    """Serve over MCP: on standard input and output, or with --http over the network.

    Skills are watched where that is possible, and clients are told when tools change.
    """
    if said["install"]:
        from skillpouch.servers.mcp.install import configurations

        print_json(configurations(said["roots"], said["workspace"], said["http"]))
        return
    log_to_stderr(cast("LogFormat", said["log_format"]))
    manager = SkillManager(
        *said["roots"],
        workspace=said["workspace"],
        builtins=said["builtin"],
        define_tools=said["define_tools"],
        undo_tools=said["undo_tools"],
    )
    _serve(manager, said)


def _server(manager: SkillManager, said: dict[str, Any]) -> "McpServer":
    from skillpouch.servers.mcp import McpLimits, McpServer

    only = said["only_script_tool"]
    return McpServer(
        manager,
        tools=_script_tools(manager) if only or said["script_tool"] else (),
        only_tools=only,
        limits=McpLimits(**said_limits(said)),
        long_calls=_long_calls(said),
    )


def _long_calls(said: dict[str, Any]) -> "LongCalls":
    from skillpouch.servers.mcp import LongCalls

    usual = LongCalls(list_tools=said["job_tools"], approvals=said["approvals"])
    seconds = said["soft_limit"]
    return usual if seconds is None else replace(usual, soft_limit_seconds=seconds)


def _script_tools(manager: SkillManager) -> "Callable[[], list[Tool]]":
    from skillpouch.shell.scripted_tool import ScriptedTool

    scripted = ScriptedTool.over(manager)
    return lambda: [scripted.as_tool()]  # described anew: its commands may be others


def _http_settings(said: dict[str, Any]) -> "HttpSettings":
    from skillpouch.servers.mcp import HttpSettings

    return HttpSettings(
        address=parse_address(said["http"]),
        token_file=said["token_file"],
        tls_cert=said["tls_cert"],
        tls_key=said["tls_key"],
        tls_client_ca=said["tls_client_ca"],
        allowed_hosts=said["allow_host"],
        allowed_origins=said["allow_origin"],
    )


def _serve(manager: SkillManager, said: dict[str, Any]) -> None:
    from skillpouch.servers.lifecycle import serve_until_signalled

    server = _server(manager, said)
    settings = None if said["http"] is None else _http_settings(said)
    entries = () if said["no_mcp"] else read_user_mcp()

    def ready(where: str = "on standard streams") -> None:
        _log.info("serving %d tools of %d skills over MCP %s", *server.counts, where)

    async def serve(stop: "Stop") -> None:
        from skillpouch.mcp_client import McpServers

        async with McpServers(manager, entries) if entries else nullcontext():
            if settings is None:
                await server.serve_stdio(stop=stop, ready=ready)
            else:
                await server.serve_http(settings, stop=stop, ready=lambda url: ready(f"at {url}"))

    serve_until_signalled(serve)
