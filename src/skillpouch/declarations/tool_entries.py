"""Reads one entry of tools.json or of `tools:`, with all its problems."""

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from posixpath import normpath
from typing import Any, get_args

from skillpouch.declarations.backends import (
    check_places,
    read_backend,
    template_variables,
    unknown_fields,
)
from skillpouch.declarations.declared import (
    DeclarationError,
    Declared,
    Report,
    read_timeout,
    report_long,
)
from skillpouch.declarations.parameters import TYPES, read_parameters, read_schema, unknown_types
from skillpouch.declarations.strict_yaml import YamlPath
from skillpouch.errors import nearest
from skillpouch.net.http.bodies import OURS, JsonBody
from skillpouch.net.http.plan import plan_of
from skillpouch.signatures.signature import JsonSchema
from skillpouch.text import clean
from skillpouch.tools import Effect, Http

# The names of members that usually hold a file, and of arguments that usually hold its path.
_FILE_MEMBERS = frozenset({"file", "files", "audio", "image", "video", "document", "attachment"})
_PATH_NAME = re.compile(
    r"(?:^|[_-])(?:file|path|filename|filepath)s?\Z|_file_path\Z", re.IGNORECASE
)


def report_doubts(http: Http, report: Report, at: YamlPath) -> None:
    """Warn of a path that is sent as text, and of headers that Skillpouch sets itself."""
    for member, argument in _paths_as_text(http):
        message = (
            f"`{member}: ${{{argument}}}` sends the path as text, not the file; to send the file, "
            f"write `multipart: {{{member}: {{path: ${{{argument}}}}}, …}}` in place of the body"
        )
        report.add("http-path-as-text", "warning", message, at)
    if ignored := sorted(name for name in http.headers if name.lower() in OURS):
        message = f"the header {ignored[0]} is set by Skillpouch itself: it is left out"
        report.add("http-header-ignored", "warning", message, at)


def _paths_as_text(http: Http) -> Iterator[tuple[str, str]]:
    """Yield member and argument of a JSON body if the names of both suggest a file."""
    body = plan_of(http).body
    if not isinstance(body, JsonBody):
        return
    # Fill the body with a unique value for each argument: a member that has exactly this value
    # consists of this one argument.
    marks = {f"\0{name}": name for name in body.names}
    arguments = {name: mark for mark, name in marks.items()}
    filled: Any = body.template.fill(arguments, dict.fromkeys(body.template.variables, "-"))
    for member, value in filled.items() if isinstance(filled, dict) else ():
        name = marks.get(value, "") if isinstance(value, str) else ""
        if member.lower() in _FILE_MEMBERS and _PATH_NAME.search(name):
            yield member, name


_NAME = re.compile(r"[^\W\d][\w.:/-]{0,127}\Z")
_TOOL_KEYS = {"description", "backend", "url", "bin", "script", "entry", "command", "http"}
_USUAL_NAME = re.compile(r"[a-z][a-z0-9_-]*\Z")
_EFFECTS: tuple[str, ...] = get_args(Effect)


def read_entries(
    entries: Iterable[tuple[YamlPath, Any]],
    source: str,
    report: Report,
    *,
    needs: Callable[[Declared], str] = lambda _: "",
) -> list[Declared]:
    """Read entries, each with its place; a bad one is reported and never loses its neighbours.

    `needs` returns what an entry of this kind of file lacks, or "".
    """
    declared: dict[str, Declared] = {}
    for at, entry in entries:
        try:
            tool = read_entry(entry, source)
        except DeclarationError as error:
            report.lost(error, at)
            continue
        lacking = needs(tool)
        if lacking:
            message = f"tool {tool.name!r} {lacking}"
            report.add("entry-incomplete", "error", message, at)
        elif tool.name in declared:
            message = f"tool {tool.name!r} is declared twice: the first counts"
            report.add("tool-duplicate", "error", message, at)
        else:
            declared[tool.name] = replace(tool, report=partial(report.add, at=at))
            report_long(tool.timeout_ms, f"tool {tool.name!r}", report, at)
            if not _USUAL_NAME.match(tool.name):
                message = f"tool name {tool.name!r}: other runtimes want lower case, digits and '_'"
                report.add("tool-name-unusual", "warning", message, at)
            for code, severity, message in check_places(tool):
                report.add(code, severity, message, at)
            if isinstance(tool.runs, Http):
                report_doubts(tool.runs, report, at)
            _report_unused(_unwrap(entry), report, at)
    return list(declared.values())


def _report_unused(entry: dict[str, Any], report: Report, at: YamlPath) -> None:
    """Report unknown fields and types of a declaration: usually they are typos."""
    for kind, field, known in unknown_fields(entry):
        near = nearest(field, known, most=1)
        said = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(known)}"
        message, place = f"{kind} backend has no {field!r:.60}: {said}", (*at, "backend", field)
        if kind == "http":
            report.add("http-field-unknown", "warning", f"an {message}", place)
        else:
            report.add("backend-field-unknown", "warning", f"a {message}", place)
    for name, written in unknown_types(entry):
        near = nearest(written, TYPES, most=1)
        said = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(TYPES)}"
        said = f"{written!r:.60} is not a type, so any value is accepted: {said}"
        report.add("type-unknown", "warning", f"parameter {name!r:.60}: {said}", at)


def is_valid_name(name: Any) -> bool:
    """Tell whether a tool may have this name."""
    return isinstance(name, str) and _NAME.match(name.strip()) is not None


def declares_tool(entry: Any) -> bool:
    """Tell whether an entry declares a tool; `- ffmpeg: to cut videos` is only a note."""
    return not isinstance(entry, dict) or "name" in entry or bool(_TOOL_KEYS & entry.keys())


def read_entry(entry: Any, source: str) -> Declared:
    """Read one entry; raise DeclarationError with everything a person needs to correct it."""
    if not isinstance(entry, dict):
        raise DeclarationError("entry-invalid", f"a {type(entry).__name__} is not a tool")
    flat = _unwrap(entry)
    backend = flat.get("backend")
    nested = backend if isinstance(backend, dict) else {}
    return Declared(
        name=_name(flat),
        source=source,
        description=clean(_description(flat)),
        input_schema=read_parameters(flat),
        output_schema=_output_schema(flat),
        script=_script(flat),
        runs=read_backend(flat),
        timeout_ms=read_timeout(flat.get("timeout_ms", nested.get("timeout_ms"))),
        effects=_effects(flat.get("effects")),
        variables=tuple(sorted(template_variables(flat))),
    )


def _unwrap(entry: dict[str, Any]) -> dict[str, Any]:
    """Unwrap OpenAI's `{"type": "function", "function": {…}}`; keys beside `function` are kept."""
    function = entry.get("function")
    if entry.get("type") == "function" and isinstance(function, dict):
        return {key: entry[key] for key in entry if key not in ("type", "function")} | function
    return entry


def _name(entry: Mapping[str, Any]) -> str:
    name = entry.get("name")
    if not isinstance(name, str) or not name.strip():
        raise DeclarationError("name-missing", "a tool without a name", ("name",))
    name = name.strip()
    if not _NAME.match(name):
        message = f"tool name {name!r:.80} is not a letter, then letters, digits, '_' and '-'"
        raise DeclarationError("tool-name-invalid", message, ("name",))
    return name


def _description(entry: Mapping[str, Any]) -> str:
    description = entry.get("description")
    return description.strip() if isinstance(description, str) else ""


def _output_schema(entry: Mapping[str, Any]) -> JsonSchema | None:
    key = next((key for key in ("output_schema", "outputSchema") if key in entry), None)
    if key is None or entry[key] is None:
        return None
    try:
        return read_schema(entry[key])
    except DeclarationError as error:
        raise DeclarationError(error.code, f"{key}: {error.message}", (key, *error.at)) from None


def _script(entry: Mapping[str, Any]) -> str:
    script = entry.get("script") or entry.get("entry")
    if script is None and isinstance(entry.get("command"), str):
        return _script_of_command(entry["command"])
    if script is None or script == "":
        return ""
    if not isinstance(script, str):
        message = f"script is a {type(script).__name__}, not a path"
        raise DeclarationError("script-invalid", message, ("script",))
    # Normalized, because `./scripts/x.sh` and `scripts/x.sh` are the same script.
    return normpath(script.strip()) if script.strip() else ""


def _script_of_command(command: str) -> str:
    """Return the file that `bash scripts/x.sh` runs. A command is never passed to a shell."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    files = [word for word in words if "/" in word and not word.startswith(("-", "/"))]
    if len(words) in (1, 2) and len(files) == 1 and words[-1] == files[0]:
        return normpath(files[0])
    message = f"command {command!r:.120} is not run: name the file it runs as `script`"
    raise DeclarationError("command-refused", message, ("command",))


def _effects(value: Any) -> tuple[Effect, ...] | None:
    if value is None:
        return None
    items = value if isinstance(value, list) else [value]
    unknown = [item for item in items if item not in _EFFECTS]
    if unknown:
        message = f"effect {unknown[0]!r:.40} is not one of {', '.join(_EFFECTS)}"
        raise DeclarationError("effects-invalid", message, ("effects",))
    return tuple(items)
