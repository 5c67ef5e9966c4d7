"""Plugin names: `.claude-plugin/plugin.json` makes every skill below it `plugin:skill`."""

import json
import re

from kitbag.problems import Problem
from kitbag.reading import DECLARATION_BYTES, CannotReadError, read_inside

PLUGIN_FOLDER = ".claude-plugin"
_NAME = re.compile(r"[\w-]{1,64}\Z")


def read_plugin_name(folder: str) -> tuple[str, list[Problem]]:
    """Return the plugin's name; "" when there is none, or none that can be read."""
    path = f"{folder}/{PLUGIN_FOLDER}/plugin.json"
    try:
        return _read_name(path, folder), []
    except CannotReadError as error:
        if error.code == "absent":
            return "", []
        message = f"plugin name unknown, its skills go by their own names: {error.reason}"
        return "", [Problem(path=path, code="plugin-invalid", severity="warning", message=message)]


def _read_name(path: str, folder: str) -> str:
    raw = read_inside(path, folder, DECLARATION_BYTES).data
    try:
        value = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise CannotReadError("not-json", f"not valid JSON: {error}") from None
    name = value.get("name") if isinstance(value, dict) else None
    if not isinstance(name, str) or not _NAME.match(name):
        raise CannotReadError("no-name", f"no usable `name` in it (found {name!r:.80})")
    return name
