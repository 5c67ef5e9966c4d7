"""What a project's file asks for and tightens: rules, limits, MCP servers."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from skillpouch.limits import Writes, read_size, size_text
from skillpouch.needs import Need
from skillpouch.policy.limit_rules import LimitRule
from skillpouch.policy.policy_file import PolicyFile
from skillpouch.policy.rules import Rule
from skillpouch.policy.toml import Table, shown
from skillpouch.trust.grantable import DEVICES

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,30}[a-z0-9])?\Z")
_VARIABLE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_DEFAULT_SECONDS = 60.0
_MOST_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class McpProgram:
    """A server that Skillpouch starts, and talks to over its standard streams."""

    command: tuple[str, ...]
    env: tuple[str, ...] = ()  # names of variables that are passed to it
    hosts: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    run: tuple[str, ...] = ()  # folders whose programs and libraries it needs
    local_sockets: bool = False
    loopback: bool = False
    memory: str = ""  # for each process, as in 4GiB; "" is the usual limit
    devices: tuple[str, ...] = ()
    unconfined: bool = False

    @property
    def profiles(self) -> tuple[str, ...]:
        """What it has beyond plain confinement, apart from memory."""
        named = {"local-sockets": self.local_sockets, "loopback": self.loopback}
        return (*(name for name, is_named in named.items() if is_named), *self.devices)


@dataclass(frozen=True, slots=True, kw_only=True)
class McpAddress:
    """A server that runs elsewhere; headers may hold `${env:NAME}`."""

    url: str
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class McpEntry:
    """One server; its tools are called `mcp:NAME.tool`. Without `tools`, all of them are used."""

    name: str
    runs: McpProgram | McpAddress
    tools: tuple[str, ...] = ()
    timeout_seconds: float = _DEFAULT_SECONDS

    @property
    def skill(self) -> str:
        """The name that stands for a skill in policies and records."""
        return f"mcp:{self.name}"

    @property
    def granted(self) -> tuple[Need, ...]:
        """What the author of the entry grants to the server."""
        if isinstance(self.runs, McpAddress):
            found = [("host", urlsplit(self.runs.url).hostname or "")]
            found += [("secret", name) for name in variables_in(self.runs.headers.values())]
        else:
            runs = self.runs
            found = [("secret", name) for name in runs.env]
            found += [("host", host) for host in runs.hosts]
            found += [("read", path) for path in (*runs.read, *runs.run)]
            found += [("write", path) for path in runs.write]
            found += [(name, "") for name in runs.profiles if name not in runs.devices]
            found += [("memory", runs.memory)] if runs.memory else []
            found += [("devices", device) for device in runs.devices]
            found += [("unconfined", "")] if runs.unconfined else []
        return tuple(Need(kind=kind, value=value) for kind, value in found)  # type: ignore[arg-type]


def variables_in(texts: Any) -> list[str]:
    """Return the variables that templates mention."""
    return list(dict.fromkeys(name for text in texts for name in _VARIABLE.findall(text)))


def filled(text: str, values: dict[str, str]) -> str:
    """Return a template with its variables replaced by values."""
    return _VARIABLE.sub(lambda match: values[match[1]], text)


def read_entries(file: PolicyFile) -> tuple[McpEntry, ...]:
    """Read every valid `[[mcp]]` of a file, and report what is wrong with the others."""
    found: dict[str, McpEntry] = {}
    for table in file.tables("mcp"):
        entry = _entry(table)
        if entry is not None and entry.name in found:
            table.wrong("name", f"{entry.name!r} appears twice")
        elif entry is not None:
            found[entry.name] = entry
    return tuple(found.values())


def _entry(table: Table) -> McpEntry | None:
    name = table.take_text("name")
    table.call_it(name)
    if not _NAME.match(name):
        table.wrong("name", "must be a short word of a-z, 0-9, '-' and '_'")
    runs = _runs(table)
    tools = table.take_texts("tools")
    seconds = _seconds(table)
    table.end()
    if runs is None or not _NAME.match(name):
        return None
    return McpEntry(name=name, runs=runs, tools=tools, timeout_seconds=seconds)


def _runs(table: Table) -> McpProgram | McpAddress | None:
    command, url = table.take_texts("command"), table.take_text("url")
    if bool(command) == bool(url):
        table.wrong(None, "needs either `command`, a list of words, or `url`")
        return None
    if url:
        return _address(table, url)
    for variable in variables_in(command):
        table.wrong("command", f"every user could read {variable} there: name it in `env`")
    return McpProgram(
        command=command,
        env=table.take_texts("env"),
        hosts=table.take_texts("hosts"),
        read=_paths(table, "read"),
        write=_paths(table, "write"),
        run=_paths(table, "run"),
        local_sockets=table.take_flag("local-sockets"),
        loopback=table.take_flag("loopback"),
        memory=_memory(table),
        devices=_devices(table),
        unconfined=table.take_flag("unconfined"),
    )


def _memory(table: Table) -> str:
    text = table.take_text("memory")
    size = read_size(text) if text else None
    if text and size is None:
        table.wrong("memory", f"must be a size such as 4GiB, not {shown(text)}")
    return "" if size is None else size_text(size)


def _devices(table: Table) -> tuple[str, ...]:
    devices = table.take_texts("devices")
    for unknown in [device for device in devices if device not in DEVICES]:
        table.wrong("devices", f"no such device can be granted: {shown(unknown)}")
    return devices


def _address(table: Table, url: str) -> McpAddress | None:
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.username
    except ValueError:
        fine = False
    if not fine:
        table.wrong("url", f"{shown(url)} is not an http or https address")
    given = table.take_table("headers").take_rest()
    if not all(isinstance(value, str) for value in given.values()):
        table.wrong("headers", "must be texts")
        return None
    return McpAddress(url=url, headers=given) if fine else None


def _paths(table: Table, key: str) -> tuple[str, ...]:
    paths = [Path(text).expanduser() for text in table.take_texts(key)]
    if not all(path.is_absolute() for path in paths):
        table.wrong(key, "must be absolute paths, or begin with ~")
    return tuple(map(str, paths))


def _seconds(table: Table) -> float:
    value = table.take("timeout_seconds")
    if value is None:
        return _DEFAULT_SECONDS
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 < value <= _MOST_SECONDS
    ):
        table.wrong("timeout_seconds", f"must be a number above zero, not {shown(value)}")
        return _DEFAULT_SECONDS
    return float(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillRequest:
    """What a skill needs according to the project: only shown to people, it grants nothing."""

    skill: str
    needs: tuple[Need, ...]
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTable:
    """Limits of a server of this project, unless its command line sets them.

    A project cannot set where a server listens and who may connect: only its user can.
    """

    most_running: int | None = None
    most_per_session: int | None = None
    drain_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A `skillpouch.toml`. `roots` and `workspace` are folders below the project's own.

    `mcp` are servers that it proposes: none is started before a user copies it into a file of
    their own.
    """

    rules: tuple[Rule, ...] = ()
    limits: tuple[LimitRule, ...] = ()
    strict: bool = False
    enforce_allowed_tools: bool = False
    require: frozenset[str] = frozenset()
    require_journal: bool = False
    writes: Writes | None = None
    requests: tuple[SkillRequest, ...] = ()
    mcp: tuple[McpEntry, ...] = ()
    roots: tuple[Path, ...] = ()
    workspace: Path | None = None
    server: ServerTable = field(default_factory=ServerTable)

    def __post_init__(self) -> None:
        for rule in self.rules:
            if rule.allows:
                raise ValueError(f"a project cannot allow anything: {rule.label}")
