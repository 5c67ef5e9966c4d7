"""Allowlist: the hosts granted to a call, and the variables that make programs use the proxy."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from skillpouch.errors import PortableError
from skillpouch.execution.command import Command
from skillpouch.net.hosts import Host, covers_host, is_elsewhere, is_private_name, read_host

_WEB = (80, 443)  # a grant without a port covers both, so hints omit these ports


class RefusedHostError(PortableError):
    """A host is not allowed; `host` is what would have to be granted."""

    def __init__(self, host: str, reason: str) -> None:
        self.host = host
        super().__init__(reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowlist:
    """The hosts that were granted to the skill of this name."""

    hosts: tuple[str, ...]
    skill: str

    def check_host(self, asked: Host) -> None:
        """Raise RefusedHostError unless the host, with its port, was granted."""
        if not self._covers(asked):
            name = _as_granted(asked)
            raise RefusedHostError(name, f"{name} is not granted; run: {self._command(name)}")

    def check_address(self, asked: Host, address: str) -> None:
        """Raise RefusedHostError when a granted host resolves to an internal address.

        Anybody can point their own name at any address. Such an address must be granted, too. Only
        a name that just this machine or its network knows needs no second grant: it was granted by
        its exact name, for the address it has there.
        """
        if is_elsewhere(address) or (not asked.is_address and is_private_name(asked.name)):
            return
        there = Host(address, asked.port, is_address=True)
        if not self._covers(there):
            name = _as_granted(there)
            why = f"{asked.name} resolves to {address}, an address of this machine or its network"
            raise RefusedHostError(name, f"{why}; to allow it, run: {self._command(name)}")

    def _covers(self, asked: Host) -> bool:
        return any(covers_host(host, str(asked)) for host in self.hosts)

    def _command(self, host: str) -> str:
        name = self.skill if self.skill.isascii() and self.skill.isprintable() else ""
        return (
            f"skillpouch trust {shlex.quote(name) if name else 'NAME'} --host {shlex.quote(host)}"
        )


def _as_granted(host: Host) -> str:
    return str(replace(host, port=None) if host.port in _WEB else host)


# On the sandbox's own loopback interface nothing else listens, so any port would do. This is the
# usual one of proxies (Squid), which people recognise in a variable.
PROXY_PORT = 3128
_MOST_RELAYED = 16
_PROXY = f"http://127.0.0.1:{PROXY_PORT}"
_NAMES = ("http_proxy", "https_proxy", "all_proxy")
_SET = {
    **{name: _PROXY for lower in _NAMES for name in (lower, lower.upper())},
    "NODE_USE_ENV_PROXY": "1",  # Node reads the other variables only if this is set
}
# Hosts that bypass the proxy could not be reached: there is no other way out. Only the sandbox's
# own loopback can, unless a server of this machine's loopback was granted.
_BYPASS = ("no_proxy", "NO_PROXY")
_OWN = "localhost,127.0.0.1,::1"


def through_proxy(command: Command, hosts: Sequence[str]) -> Command:
    """Return the command with the proxy variables, also for its warm process.

    `hosts` are those that the proxy lets it reach.
    """
    own = {} if any(map(_is_loopback, hosts)) else dict.fromkeys(_BYPASS, _OWN)
    warm = command.warm
    if warm is not None:
        warm = replace(warm, env=tuple(_with_proxy(dict(warm.env), own).items()))
    return replace(command, env=_with_proxy(command.env, own), warm=warm)


def relayed_hosts(hosts: Sequence[str]) -> dict[int, Host]:
    """Return port → host of the servers on this machine's loopback that were granted by port.

    They are found at that port on the loopback of the call, too: database clients and many others
    know no proxy.
    """
    servers = [read_host(host) for host in sorted(hosts) if _is_loopback(host)]
    ports = {each.port: each for each in servers if each.port not in (None, PROXY_PORT)}
    return {port: ports[port] for port in sorted(filter(None, ports))[:_MOST_RELAYED]}


def _is_loopback(host: str) -> bool:
    name = read_host(host).name
    return name.startswith("127.") or name in ("::1", "localhost") or name.endswith(".localhost")


def _with_proxy(env: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in env.items() if name not in _BYPASS}
    return {**kept, **_SET, **own}
