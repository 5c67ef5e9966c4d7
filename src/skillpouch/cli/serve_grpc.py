"""`skillpouch serve grpc`: serves sessions, skills and tools over gRPC."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from skillpouch.cli.options import DEFINE_TOOLS, UNDO_TOOLS, common_options
from skillpouch.cli.serve_command import LogFormat, log_to_stderr, said_limits
from skillpouch.manager import SkillManager
from skillpouch.servers.addresses import parse_address

if TYPE_CHECKING:
    from skillpouch.servers.grpc.server import GrpcServer
    from skillpouch.servers.grpc.settings import GrpcSettings

_log = logging.getLogger("skillpouch.serve")

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_COUNT = click.IntRange(1, 4096)
_OPTIONS = (
    click.option(
        "--listen",
        metavar="HOST:PORT",
        default="127.0.0.1:50051",
        show_default=True,
        help="Where to listen; port 0 picks a free one.",
    ),
    click.option("--token-file", type=_FILE, help="Admit only clients with one of these tokens."),
    click.option("--tls-cert", type=_FILE, help="Serve TLS with this certificate (PEM)."),
    click.option("--tls-key", type=_FILE, help="Its key, unless it is in the same file."),
    click.option("--tls-client-ca", type=_FILE, help="Ask clients for a certificate of this CA."),
    click.option(
        "--approvals",
        type=click.Choice(["client", "owner"]),
        default="owner",
        show_default=True,
        help="Who may approve what jobs ask: the clients that started them, or only you, with "
        "`skillpouch approve`.",
    ),
    click.option("--metrics", metavar="HOST:PORT", help="Serve Prometheus metrics here."),
    click.option("--builtin", is_flag=True, help="Serve Skillpouch's own tools, too: bash, read …"),
    click.option("--define-tools", is_flag=True, help=DEFINE_TOOLS),
    click.option("--undo-tools", is_flag=True, help=UNDO_TOOLS),
    click.option(
        "--workspace",
        type=_FOLDER,
        metavar="DIR",
        help="Folder of calls without a session; by default the current one.",
    ),
    click.option("--most-running", type=_COUNT, help="Calls at once: 64."),
    click.option("--most-per-session", type=_COUNT, help="Calls at once in one session: 32."),
    click.option("--drain", type=click.FloatRange(0), help="Seconds for calls to finish: 30."),
    click.option("--log", "log_format", type=click.Choice(["text", "json"]), default="text"),
)


def _with_options(command: Any) -> Any:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command("grpc")
@_with_options
@common_options
def command(**said: Any) -> None:
    """Serve `skillpouch.v1.Skillpouch` over gRPC, with health and reflection.

    Except on loopback, clients must authenticate: --token-file or --tls-client-ca.
    """
    from skillpouch.servers.lifecycle import serve_until_signalled

    log_to_stderr(cast("LogFormat", said["log_format"]))
    manager = SkillManager(
        *said["roots"],
        workspace=said["workspace"],
        builtins=said["builtin"],
        define_tools=said["define_tools"],
        undo_tools=said["undo_tools"],
    )
    server, settings = _server(manager, said)

    def ready(address: str) -> None:
        _log.info("serving %d tools over gRPC at %s", len(manager.tools), address)

    serve_until_signalled(lambda stop: server.serve(settings, stop=stop, ready=ready))


def _server(manager: SkillManager, said: dict[str, Any]) -> "tuple[GrpcServer, GrpcSettings]":
    from skillpouch.servers.grpc import GrpcLimits, GrpcServer, GrpcSettings
    from skillpouch.sessions.manager import SessionManager

    settings = GrpcSettings(
        address=parse_address(said["listen"]),
        token_file=said["token_file"],
        tls_cert=said["tls_cert"],
        tls_key=said["tls_key"],
        tls_client_ca=said["tls_client_ca"],
        metrics=parse_address(said["metrics"]) if said["metrics"] else None,
        approvals=said["approvals"],
    )
    limits = GrpcLimits(**said_limits(said))
    names = {"builtins": "builtin", "define_tools": "define_tools", "undo_tools": "undo_tools"}
    sessions = SessionManager(manager, **{name: said[option] for name, option in names.items()})
    return GrpcServer(manager, sessions=sessions, limits=limits), settings
