"""Paths of this machine in what Skillpouch itself says: shortened for clients that are elsewhere.

What a tool prints is its own, and a client may have to write it back: there, only folders that
are known by another name are named by that.
"""

import re
from collections.abc import Mapping

from skillpouch.errors import SkillpouchError
from skillpouch.servers.faults import fault_of

# An absolute path, and not a part of an address or of a relative path.
_ABSOLUTE = re.compile(r"(?<![\w/.~…-])/(?!/)[^\s'\"`,;:()<>\[\]{}|]+")
# Where every Linux machine has the same.
_EVERYWHERE = ("/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/", "/etc/", "/dev/", "/proc/", "/sys/")
# Errors about what the client said: the paths in them are its own words.
_OF_THE_CLIENT = ("invalid", "not_found")


def rename_folders(text: str, known: Mapping[str, str]) -> str:
    """Return a text in which some folders have other names, such as `skill://demo`."""
    for folder, name in sorted(known.items(), key=lambda item: -len(item[0])):
        if folder in text:
            text = re.sub(rf"{re.escape(folder)}(?![\w.-])", name.replace("\\", r"\\"), text)
    return text


def shorten_paths(text: str, known: Mapping[str, str] | None = None) -> str:
    """Return words of Skillpouch's in which no folder of this machine is named.

    Of a path that is not in one of the `known` folders only the last part is left.
    """
    return _ABSOLUTE.sub(_shortened, rename_folders(text, known or {}))


def shorten_error(text: str, error: SkillpouchError, known: Mapping[str, str] | None = None) -> str:
    """Return words of an error in which no folder is named that the client did not name."""
    if fault_of(error) in _OF_THE_CLIENT:
        return rename_folders(text, known or {})
    return shorten_paths(text, known)


def _shortened(found: re.Match[str]) -> str:
    path = found[0].rstrip("/")
    if path.startswith(_EVERYWHERE) or "/" not in path[1:]:
        return found[0]
    return f"…/{path.rpartition('/')[2]}"
