"""Plugin names: `.claude-plugin/plugin.json` makes every skill below it `plugin:skill`."""

import json
import os
import re
from typing import NamedTuple

from skillpouch.problems import Problem
from skillpouch.untrusted_files import (
    DECLARATION_BYTES,
    CannotReadError,
    Stamp,
    read_inside,
    stamp_of,
)

PLUGIN_FOLDER = ".claude-plugin"
_NAME = re.compile(r"[\w-]{1,64}\Z")


class Plugin(NamedTuple):
    """A plugin's name, "" when there is none, and the stamp it was read under, if it was."""

    stamp: Stamp
    name: str


def read_plugin(folder: str) -> tuple[Plugin, list[Problem]]:
    """Return the plugin whose skills lie below a folder."""
    path = _path(folder)
    try:
        content = read_inside(path, folder, DECLARATION_BYTES)
        return Plugin(content.stamp, _name(content.data)), []
    except CannotReadError as error:
        if error.code == "absent":
            return Plugin("", ""), []
        message = f"plugin name unknown, its skills go by their own names: {error.reason}"
        problem = Problem(path=path, code="plugin-invalid", severity="warning", message=message)
        return Plugin("", ""), [problem]


def plugin_stamp(folder: str) -> Stamp:
    """Return the stamp of a plugin's file now, "" when it is not there."""
    try:
        return stamp_of(os.stat(_path(folder)))
    except OSError:
        return ""


def _path(folder: str) -> str:
    return f"{folder}/{PLUGIN_FOLDER}/plugin.json"


def _name(raw: bytes) -> str:
    try:
        value = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise CannotReadError("not-json", f"not valid JSON: {error}") from None
    name = value.get("name") if isinstance(value, dict) else None
    if not isinstance(name, str) or not _NAME.match(name):
        raise CannotReadError("no-name", f"no usable `name` in it (found {name!r:.80})")
    return name
