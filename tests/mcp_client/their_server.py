"""A server made with the library of the protocol's authors, to be used as tools."""

import os
import pathlib
import socket
import sys
import tempfile
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

server = MCPServer("theirs")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def environment() -> dict[str, Any]:
    """Tell what it sees."""
    return {
        "secret": os.environ.get("THEIR_TOKEN", ""),
        "other": os.environ.get("OTHER", ""),
        "home": pathlib.Path("/root").exists() and bool(list(pathlib.Path("/root").iterdir())),
        "pid": os.getpid(),
    }


@server.tool(annotations=ToolAnnotations(destructive_hint=True))
def wipe() -> str:
    """Remove everything."""
    return "gone"


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("it is broken")


@server.tool()
def die() -> str:
    """End the server."""
    os._exit(3)


@server.tool()
def reach(path: str) -> str:
    """Read a file."""
    return pathlib.Path(path).read_text()


@server.tool()
def keep(path: str) -> str:
    """Write a file."""
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(path).write_text("kept")
    return "kept"


@server.tool()
def hold(mebibytes: int) -> int:
    """Use memory."""
    return len(bytearray(mebibytes << 20))


@server.tool()
def talk() -> str:
    """Talk over a unix socket of its own, and over loopback."""
    said = []
    with tempfile.TemporaryDirectory() as folder:
        for family, address in (
            (socket.AF_UNIX, f"{folder}/socket"),
            (socket.AF_INET, ("127.0.0.1", 0)),
        ):
            with socket.socket(family) as listening, socket.socket(family) as client:
                listening.bind(address)
                listening.listen()
                client.connect(listening.getsockname())
                said.append(family.name)
    return " ".join(said)


if __name__ == "__main__":
    server.run("streamable-http", port=int(sys.argv[1])) if sys.argv[1:] else server.run()
