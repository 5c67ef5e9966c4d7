"""Checks whether a need can be granted, and normalizes it."""

import os
import re
import sys
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


def grantable(need: Need, home: str = "") -> Need:  # noqa: C901, PLR0911 - one for each kind
    """Return the need as it is stored; raise GrantRefusedError if it can never be granted.

    `home` is the folder of the skill that needs it, "" if that is not known.
    """
    match need.kind:
        case "secret":
            return _secret(need)
        case "setting":
            return _setting(need)
        case "host":
            return _host(need)
        case "read" | "write":
            return _path(need, home)
        case "own-folder":
            return _own_folder(need, home)
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


def _path(need: Need, home: str) -> Need:
    found = real_path(need.value)
    if not found:
        raise GrantRefusedError(need, "it is not an absolute path")
    if has_hidden(found):
        raise GrantRefusedError(need, "it holds invisible characters")
    if need.kind == "write":
        _refuse_ours(need, found)
        _refuse_own(need, found, real_path(home))
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


def _refuse_own(need: Need, found: str, home: str) -> None:
    """Refuse the folder of the skill itself: a grant is for its content, as it is now."""
    if home and (found == home or is_below(found, home)):
        entry = os.path.relpath(found, home) if found != home else "NAME"
        reason = "it lies in the skill's own folder, and the first change there ends every grant"
        hint = f"its folder stays as it is, and its calls can write beside it: --own-folder {entry}"
        raise GrantRefusedError(need, reason, hint=hint)


_DEEPEST = 5
# Names by which interpreters find code, or decide how to run it, without being told a path.
_FOUND_BY_NAME = re.compile(
    r".*\.(?:py[cdiow]?|so|pth|egg|sh|bash|zsh|[mc]?[jt]s|node|rb|pl|pm)"
    r"|__pycache__|node_modules|package\.json|pyvenv\.cfg",
    re.IGNORECASE,
)


def _own_folder(need: Need, home: str) -> Need:
    """Return an entry in the folder of a skill, as a relative path.

    A folder that the skill has, or `.`, is one in which entries can be made, and none is kept.
    """
    hint = "an entry is written data or .venv, or scripts/cache in a folder of the skill"
    path = need.value
    if home and path.startswith("/"):
        path = os.path.relpath(os.path.normpath(path), os.path.normpath(home))
    path = os.path.normpath(path) if path else "."
    parts = path.split("/")
    if path.startswith(("/", "../")) or path == ".." or len(parts) > _DEEPEST:
        raise GrantRefusedError(need, "it is not an entry in the folder of the skill", hint=hint)
    if has_hidden(path):
        raise GrantRefusedError(need, "it holds invisible characters")
    if path == "." or (home and _is_folder(home, path)):
        return replace(need, value=path)
    name = parts[-1]
    if _FOUND_BY_NAME.fullmatch(name) or name in sys.stdlib_module_names:
        reason = "interpreters look for code by that name, so a call could plant some for the next"
        raise GrantRefusedError(need, reason, hint="packages are granted with --package")
    if home:
        _refuse_part_of_skill(need, path, home)
    return replace(need, value=path)


def _refuse_part_of_skill(need: Need, path: str, home: str) -> None:
    above, _, name = path.rpartition("/")
    if os.path.lexists(f"{home}/{path}"):
        raise GrantRefusedError(need, "it is a part of the skill, whose files never change")
    if above and not _is_folder(home, above):
        first = path.partition("/")[0]
        hint = f"name what is made in the folder of the skill: --own-folder {first}"
        raise GrantRefusedError(need, f"{above} is not a folder of the skill", hint=hint)
    if file := _importing(name.partition(".")[0], home):
        raise GrantRefusedError(need, f"{file} imports a module by that name")


def _is_folder(home: str, path: str) -> bool:
    """Tell whether a skill has a folder at a path, and no link leads to it."""
    folder = f"{real_path(home)}/{path}"
    return os.path.isdir(folder) and os.path.realpath(folder) == folder


def _importing(name: str, home: str) -> str:
    """Return a file of the skill that imports a module of this name, "" if none does."""
    # Imported here: only this kind of need makes it read the sources of a skill.
    from skillpouch.trust.requested_packages import sources_of

    if not name:
        return ""
    word = re.escape(name)
    told = re.compile(
        rf"^[ \t]*(?:import|from)[ \t]+(?:[\w., \t]*,[ \t]*)?{word}\b"
        rf"|(?:\brequire\(|\bfrom|\bimport|\bimport\()\s*['\"](?:\.{{1,2}}/)*{word}['\"/]",
        re.MULTILINE,
    )
    return next((path for path, text in sources_of(home).items() if told.search(text)), "")


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
