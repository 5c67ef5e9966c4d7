"""The settings with which common hosts start this server."""

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from skillpouch.servers.addresses import parse_address


def configurations(
    roots: Sequence[Path], workspace: Path | None, http: str | None
) -> dict[str, Any]:
    """Return per host what goes where; absolute paths, because hosts start in any folder."""
    if http is not None:
        return _over_http(f"http://{parse_address(http)}/mcp")
    command, words = _command(roots, workspace)
    entry = {"command": command, "args": words}
    line = shlex.join((command, *words))
    return {
        "claude_desktop": {
            "file": "claude_desktop_config.json",
            "content": {"mcpServers": {"skillpouch": entry}},
        },
        "claude_code": {"run": f"claude mcp add skillpouch -- {line}"},
        "cursor": {"file": ".cursor/mcp.json", "content": {"mcpServers": {"skillpouch": entry}}},
        "vscode": {
            "file": ".vscode/mcp.json",
            "content": {"servers": {"skillpouch": {"type": "stdio", **entry}}},
        },
        "codex": {
            "file": "~/.codex/config.toml",
            "content": f"[mcp_servers.skillpouch]\ncommand = {_toml(command)}\n"
            f"args = {_toml(words)}\n",
        },
        "gemini": {
            "file": "~/.gemini/settings.json",
            "content": {"mcpServers": {"skillpouch": entry}},
        },
    }


def _over_http(url: str) -> dict[str, Any]:
    return {
        "claude_code": {"run": f"claude mcp add --transport http skillpouch {url}"},
        "cursor": {
            "file": ".cursor/mcp.json",
            "content": {"mcpServers": {"skillpouch": {"url": url}}},
        },
        "vscode": {
            "file": ".vscode/mcp.json",
            "content": {"servers": {"skillpouch": {"type": "http", "url": url}}},
        },
        "gemini": {
            "file": "~/.gemini/settings.json",
            "content": {"mcpServers": {"skillpouch": {"httpUrl": url}}},
        },
    }


def _command(roots: Sequence[Path], workspace: Path | None) -> tuple[str, list[str]]:
    program = Path(sys.argv[0])
    direct = program.name == "skillpouch" and os.access(program, os.X_OK)
    command = str(program.absolute()) if direct else sys.executable
    words = ["serve", "mcp"] if direct else ["-m", "skillpouch", "serve", "mcp"]
    for root in roots:
        words += ["--root", str(root.absolute())]
    return command, [*words, "--workspace", str((workspace or Path.cwd()).absolute())]


def _toml(value: str | list[str]) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)
