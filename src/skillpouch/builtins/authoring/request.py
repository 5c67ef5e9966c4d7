"""What an agent asks `define_tool` for: its arguments, understood once and for all."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from skillpouch.builtins.authoring.javascript_code import is_javascript, javascript_module
from skillpouch.builtins.authoring.parameters import Parameters, read_definitions
from skillpouch.builtins.authoring.python_code import NotPythonError, python_module
from skillpouch.errors import ToolFaultError
from skillpouch.signatures.python.pep723 import read_block
from skillpouch.text import clean

Language = Literal["python", "javascript"]
LANGUAGES: tuple[str, ...] = get_args(Language)
NAME = r"^[a-z][a-z0-9_]*$"
LONGEST_NAME = 64
LONGEST_DESCRIPTION = 1000
LONGEST_CODE = 200_000
_YES_AND_NO = {"true": True, "false": False, "yes": True, "no": False, "1": True, "0": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRequest:
    """A tool to be made; `source` is the whole script, `parameters` as tools.json has them."""

    name: str
    description: str
    parameters: Parameters
    language: Language
    source: str
    persistent: bool = False

    @property
    def skill(self) -> str:
        """The name of its skill: `fetch_weather` → `fetch-weather`."""
        return re.sub("_+", "-", self.name).strip("-")


def read_request(arguments: Mapping[str, Any]) -> ToolRequest:
    """Read the arguments of `define_tool`; raise ToolFaultError when they are wrong."""
    description = " ".join(clean(arguments["description"]).split())
    if not description:
        raise ToolFaultError("invalid_argument", "description: say what the tool does")
    language, source = _source(arguments["code"], arguments.get("language"), description)
    return ToolRequest(
        name=arguments["name"],
        description=description,
        parameters=read_definitions(_object(arguments.get("parameters"))),
        language=language,
        source=source,
        persistent=_switch(arguments.get("persistent", False)),
    )


def _without_packages(source: str) -> str:
    """Refuse a script block: whoever says yes to packages says it to a skill that people read."""
    if read_block(source) is None:
        return source
    raise ToolFaultError(
        "invalid_argument",
        "code: it holds a script block (`# /// script`), and a tool made here brings no packages",
        hint="leave the block out and import only what is there already",
    )


def _object(given: Any) -> Any:
    if given is None or (isinstance(given, str) and not given.strip()):
        return {}
    if not isinstance(given, str):
        return given
    try:
        return json.loads(given)
    except (ValueError, RecursionError) as error:
        raise ToolFaultError("invalid_argument", f"parameters: not JSON: {error!s:.200}") from None


def _switch(given: Any) -> bool:
    if isinstance(given, bool):
        return given
    try:
        return _YES_AND_NO[given.strip().lower() or "false"]
    except KeyError:
        raise ToolFaultError(
            "invalid_argument", f"persistent: {given!r:.60} is neither 'true' nor 'false'"
        ) from None


def _source(code: str, language: str | None, description: str) -> tuple[Language, str]:
    if not code.strip():
        raise ToolFaultError("invalid_argument", "code: there is none")
    if language == "javascript":
        return "javascript", javascript_module(code, description)
    try:
        return "python", _without_packages(python_module(code, description))
    except NotPythonError as error:
        if language is None and is_javascript(code):
            return "javascript", javascript_module(code, description)
        raise ToolFaultError(
            "invalid_argument",
            f"code: {error}",
            hint="give the body of `def handler(args):`, or say language='javascript'",
        ) from None
