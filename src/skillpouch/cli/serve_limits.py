"""How much a server takes: what the command line says, or else the project's skillpouch.toml."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from skillpouch.policy.project_file import read_project


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
