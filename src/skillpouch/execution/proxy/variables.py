"""The variables by which programs find their proxy."""

from collections.abc import Mapping
from dataclasses import replace

from skillpouch.execution.command import Command

PROXY_PORT = 3128  # of the slot's own loopback: nothing else is there
_PROXY = f"http://127.0.0.1:{PROXY_PORT}"
_NAMES = ("http_proxy", "https_proxy", "all_proxy")
_SET = {
    **{name: _PROXY for lower in _NAMES for name in (lower, lower.upper())},
    "NODE_USE_ENV_PROXY": "1",  # Node looks at the others only where this is set
}
# Exceptions would lead nowhere: there is no other way out.
_UNSET = ("no_proxy", "NO_PROXY")


def through_proxy(command: Command) -> Command:
    """Return the command with these variables, also for a process that waits for it."""
    warm = command.warm
    if warm is not None:
        warm = replace(warm, env=tuple(_with_proxy(dict(warm.env)).items()))
    return replace(command, env=_with_proxy(command.env), warm=warm)


def _with_proxy(env: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in env.items() if name not in _UNSET}
    return {**kept, **_SET}
