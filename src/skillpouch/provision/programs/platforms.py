"""Which of several builds is for this machine: keys such as `linux-x86_64`, best match first."""

import platform
import sys
from collections.abc import Mapping

_MACHINES = {
    "x86_64": ("x86_64", "amd64", "x64"),
    "aarch64": ("aarch64", "arm64"),
    "armv7l": ("armv7l", "armv7", "arm"),
    "i686": ("i686", "i386", "x86"),
}
_SYSTEMS = {"linux": ("linux",), "darwin": ("darwin", "macos")}


def this_platform() -> str:
    """Return the name of this machine's platform, such as `linux-x86_64`."""
    machine = platform.machine().lower()
    usual = next((name for name, others in _MACHINES.items() if machine in others), machine)
    return f"{sys.platform}-{usual}"


def for_platform(choices: Mapping[str, str], name: str) -> str | None:
    """Return the choice for a platform: its own, one for its system, or the one for `any`."""
    system, _, machine = name.partition("-")
    systems = _SYSTEMS.get(system, (system,))
    machines = _MACHINES.get(machine, (machine,))
    exact = [f"{one}{mark}{other}" for one in systems for other in machines for mark in "-_/"]
    lower = {key.lower(): value for key, value in choices.items()}
    return next((lower[key] for key in (*exact, *systems, "any") if key in lower), None)
