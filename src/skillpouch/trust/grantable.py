"""Checks whether a need can be granted, and normalizes it."""

import re
from dataclasses import replace

from skillpouch.environment import cache_directory, config_directory, state_directory
from skillpouch.limits import read_size, read_time, size_text, time_text
from skillpouch.needs import Need
from skillpouch.net.hosts import HostError, read_host
from skillpouch.secrets.shapes import reason_against_plain
from skillpouch.trust.errors import GrantRefusedError, has_hidden
from skillpouch.trust.grant import is_below, real_path, split_package, split_pin

DEVICES = ("gpu",)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z", re.ASCII)


def is_variable(name: str) -> bool:
    """Tell whether an environment variable can have this name."""
    return _NAME.match(name) is not None


def grantable(need: Need) -> Need:  # noqa: C901, PLR0911 - one for each kind
    """Return the need as it is stored; raise GrantRefusedError if it can never be granted."""
    match need.kind:
        case "secret":
            return _secret(need)
        case "setting":
            return _setting(need)
        case "host":
            return _host(need)
        case "read" | "write":
            return _path(need)
        case "packages" | "build":
            return _package(need)
        case "program":
            return _program(need)
        case "memory":
            return _memory(need)
        case "devices":
            return _device(need)
        case "time":
            return _time(need)
        case "local-sockets" | "loopback" | "commands" | "unconfined":
            return need


def _secret(need: Need) -> Need:
    if not is_variable(need.value):
        raise GrantRefusedError(need, "it is not the name of an environment variable")
    return need


def _setting(need: Need) -> Need:
    name, given, value = need.value.partition("=")
    if not is_variable(name):
        raise GrantRefusedError(need, "it is not the name of an environment variable")
    reason = reason_against_plain(name, value) if given else ""
    if given and not value:
        raise GrantRefusedError(replace(need, value=name), "it has no value")
    if reason or (given and has_hidden(value)):
        # The value is not repeated: it may be a secret.
        hint = f"grant it as a secret: --secret {name}"
        raise GrantRefusedError(replace(need, value=name), reason or "it is hidden", hint=hint)
    return need


def _host(need: Need) -> Need:
    try:
        return replace(need, value=str(read_host(need.value)))
    except HostError as error:
        hint = "a host is written api.example.com, api.example.com:8443 or *.example.com"
        raise GrantRefusedError(need, str(error), hint=hint) from None


def _path(need: Need) -> Need:
    found = real_path(need.value)
    if not found:
        raise GrantRefusedError(need, "it is not an absolute path")
    if has_hidden(found):
        raise GrantRefusedError(need, "it holds invisible characters")
    if need.kind == "write":
        _refuse_ours(need, found)
    return replace(need, value=found)


def _refuse_ours(need: Need, found: str) -> None:
    """Refuse Skillpouch's own folders: who can write grants or policy can do anything."""
    kept = {
        "grants are": state_directory(),
        "settings are": config_directory(),
        "index and the packages of all skills are": cache_directory(),
    }
    for what, folder in kept.items():
        ours = "" if folder is None else real_path(str(folder))
        if ours and (found == ours or is_below(ours, found) or is_below(found, ours)):
            reason = f"Skillpouch's {what} kept in {ours}"
            raise GrantRefusedError(need, reason, hint="name a smaller folder")
    if found == "/":
        raise GrantRefusedError(need, "it is the whole machine", hint="name a smaller folder")


def _package(need: Need) -> Need:
    if not split_package(need.value)[0]:
        hint = "a package is written name, name==version or npm:name@version"
        raise GrantRefusedError(need, "it is not the name of a package", hint=hint)
    if need.kind == "build":
        return _build(need)
    return need


def _build(need: Need) -> Need:
    name, version = split_package(need.value)
    if version or name.startswith("npm:"):
        hint = "only Python packages are built: write the name alone, --build lxml"
        raise GrantRefusedError(need, "it is not the name of a Python package", hint=hint)
    return replace(need, value=name)


def _memory(need: Need) -> Need:
    size = read_size(need.value)
    if size is None:
        hint = "a size is written 4GiB or 1536MiB"
        raise GrantRefusedError(need, "it is not a size of a memory", hint=hint)
    return replace(need, value=size_text(size))


def _time(need: Need) -> Need:
    seconds = read_time(need.value)
    if seconds is None:
        hint = "a time is written 2h, 90m or 1h30m, and is at most a day: 24h"
        raise GrantRefusedError(need, "it is not a time that a call may take", hint=hint)
    return replace(need, value=time_text(seconds))


def _device(need: Need) -> Need:
    if need.value not in DEVICES:
        raise GrantRefusedError(need, "no such device can be granted", hint="there is only gpu")
    return need


def _program(need: Need) -> Need:
    if not split_pin(need.value)[0]:
        hint = "a program is written https://tools.example.com/tool#sha256= and 64 digits"
        raise GrantRefusedError(need, "it is not an https address with its sha256", hint=hint)
    return need
