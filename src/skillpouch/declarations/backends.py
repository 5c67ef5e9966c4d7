"""Reads the backend of a declared tool: one of ours, with its templates, or another package's."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from skillpouch.declarations.declared import DeclarationError, Declared
from skillpouch.errors import nearest
from skillpouch.net.http.guard import PlanError
from skillpouch.net.http.plan import KNOWN_FIELDS, plan_of
from skillpouch.problems import Severity
from skillpouch.runtime.entry_points import BACKENDS, is_provided
from skillpouch.templates import ArgvTemplate, TemplateError, TextTemplate, VariableInWordsError
from skillpouch.tools import Binary, External, Http, InlineScript, Runs, argument_variable

Finding = tuple[str, Severity, str]  # code, severity, message


def require_args_template(text: str) -> None:
    """Raise DeclarationError for a template that could never be filled."""
    try:
        ArgvTemplate.parse(text)
    except TemplateError as error:
        hint = f" ({error.hint})" if error.hint else ""
        message = f"args_template: {error}{hint}"
        where = ("args_template",)
        if isinstance(error, VariableInWordsError):
            raise DeclarationError("secret-in-words", message, where) from None
        raise DeclarationError("template-invalid", message, where) from None


def check_places(tool: Declared) -> Iterator[Finding]:
    """Return warnings about how a declared tool gets its arguments; the tool loads anyway."""
    properties = (tool.input_schema or {}).get("properties")
    known = list(properties) if isinstance(properties, Mapping) else []
    for name in sorted(_names(tool.runs) - set(known)):
        yield _problem("placeholder-unknown", _unknown(tool.name, name, known))
    if isinstance(tool.runs, InlineScript | Binary):
        yield from _collisions(tool.name, known)


def _problem(code: str, message: str) -> Finding:
    return code, "warning", message


def _names(runs: Runs | None) -> frozenset[str]:
    """Return the arguments that the templates of a backend mention."""
    if isinstance(runs, Binary) and runs.args_template is not None:
        return ArgvTemplate.parse(runs.args_template).names
    if isinstance(runs, Http):
        every = (runs.url, runs.headers, runs.body_template, runs.extra)
        return frozenset().union(*map(_names_inside, every))
    return frozenset()


def _names_inside(value: Any) -> frozenset[str]:
    if isinstance(value, str):
        try:
            return TextTemplate.parse(value).names
        except TemplateError:
            return frozenset()  # reported elsewhere, with the position of the text
    if isinstance(value, Mapping):
        return frozenset().union(*map(_names_inside, value.values()))
    if isinstance(value, list | tuple):
        return frozenset().union(*map(_names_inside, value))
    return frozenset()


def _unknown(tool: str, name: str, known: list[str]) -> str:
    meant = nearest(name, known, most=1)
    instead = f"did you mean ${{{meant[0]}}}?" if meant else "`parameters` has no such property"
    return f"tool {tool!r}: ${{{name}}} is not one of its parameters: {instead}"


def _collisions(tool: str, names: list[str]) -> Iterator[Finding]:
    wanting: dict[str, list[str]] = {}
    for name in names:
        wanting.setdefault(argument_variable(name), []).append(name)
    for variable, several in wanting.items():
        if len(several) > 1:
            message = (
                f"tool {tool!r}: {' and '.join(several)} would set the same variable "
                f"{variable}, so none of them does: rename one, or read TOOL_ARGS"
            )
            yield _problem("variable-collision", message)


INTERPRETERS = ("bash", "sh", "zsh", "python", "python3", "node", "ruby", "perl")
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_HTTP_FIELDS = ("url", "method", "headers", "body_template")
_FIELDS = {
    "binary": ("type", "path", "url", "args_template", "sha256", "timeout_ms"),
    "http": ("type", *_HTTP_FIELDS, *KNOWN_FIELDS, "timeout_ms"),
    "script": ("type", "interpreter", "script", "interpreter_args", "timeout_ms"),
}
_PROVIDED = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}\Z")  # a legal name of an entry point
_PACKAGE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?\Z")  # as PEP 508 has it
_VARIABLE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")


def read_backend(entry: Mapping[str, Any]) -> Runs | None:
    """Return what the entry runs, or None if it declares no backend."""
    backend = entry.get("backend")
    if backend is None:
        return _legacy(entry)
    if not isinstance(backend, dict):
        raise DeclarationError("backend-invalid", "backend is not a mapping", ("backend",))
    kind = backend.get("type")
    readers: dict[str, Callable[[Mapping[str, Any]], Runs]] = {
        "binary": _binary,
        "http": _http,
        "script": _inline,
    }
    reader = readers.get(kind) if isinstance(kind, str) else None
    if reader is None and isinstance(kind, str) and _PROVIDED.match(kind):
        reader = _external
    if reader is None:
        message = f"backend type {kind!r} is not one of binary, http, script"
        raise DeclarationError("backend-invalid", message, ("backend",))
    try:
        return reader(backend)
    except DeclarationError as error:
        raise DeclarationError(error.code, error.message, ("backend", *error.at)) from None


def unknown_fields(entry: Mapping[str, Any]) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the kind of backend, an unknown field in its declaration, and the known fields."""
    backend = entry.get("backend")
    kind = backend.get("type") if isinstance(backend, dict) else "http"
    fields = backend if isinstance(backend, dict) else entry.get("http")
    known = _FIELDS.get(kind) if isinstance(kind, str) else None
    if not isinstance(fields, dict) or known is None:
        return
    for field in fields:
        if field not in known:
            yield str(kind), str(field), list(known)


def template_variables(value: Any) -> set[str]:
    """Return the environment variables that templates anywhere inside a value mention."""
    if isinstance(value, str):
        return set(_VARIABLE.findall(value))
    if isinstance(value, Mapping):
        return set().union(*map(template_variables, value.values()))
    if isinstance(value, list | tuple):
        return set().union(*map(template_variables, value))
    return set()


def _legacy(entry: Mapping[str, Any]) -> Runs | None:
    if isinstance(entry.get("http"), dict):
        return _http(entry["http"])
    if not entry.get("bin") and not entry.get("url"):
        return None
    return _binary({**entry, "path": entry.get("bin")})


def _binary(backend: Mapping[str, Any]) -> Binary:
    path, url = _string(backend, "path"), _by_platform(backend, "url")
    if not path and not url:
        raise DeclarationError("backend-invalid", "a binary backend needs `path` or `url`")
    template = _string(backend, "args_template")
    require_args_template(template)
    return Binary(
        path=path or None,
        url=None if path else url,
        args_template=template or None,
        sha256=_by_platform(backend, "sha256"),
    )


def _by_platform(backend: Mapping[str, Any], key: str) -> str | dict[str, str] | None:
    """Return a text, or one for each platform."""
    value = backend.get(key)
    if not isinstance(value, dict):
        return _string(backend, key) or None
    if not all(isinstance(each, str) for each in value.values()):
        message = f"{key} is a mapping, but not of platforms to texts"
        raise DeclarationError("backend-invalid", message, (key,))
    return {str(platform): each for platform, each in value.items()}


def _http(backend: Mapping[str, Any]) -> Http:
    url = _string(backend, "url")
    if not re.match(r"https?://[^/]", url):
        message = f"an http backend needs a `url` that starts with http:// or https://, not {url!r}"
        raise DeclarationError("backend-invalid", f"{message:.200}", ("url",))
    method = (_string(backend, "method") or "POST").upper()
    if method not in METHODS:
        message = f"method {method!r:.40} is not one of {', '.join(METHODS)}"
        raise DeclarationError("backend-invalid", message, ("method",))
    headers = backend.get("headers") or {}
    if not isinstance(headers, dict):
        raise DeclarationError("backend-invalid", "headers are not a mapping", ("headers",))
    used = {"type", *_HTTP_FIELDS, "timeout_ms"}
    http = Http(
        url=url,
        method=method,
        headers={name: str(value) for name, value in headers.items()},
        body_template=_string(backend, "body_template") or None,
        extra={key: value for key, value in backend.items() if key not in used},
    )
    try:
        plan_of(http)
    except PlanError as error:
        at = tuple(error.at.split(".", 1)[:1]) if error.at else ()
        code = "template-invalid" if error.in_template else "backend-invalid"
        raise DeclarationError(code, f"{error}", at) from None
    return http


def _inline(backend: Mapping[str, Any]) -> InlineScript:
    interpreter, text = _string(backend, "interpreter"), _string(backend, "script")
    if interpreter not in INTERPRETERS:
        message = f"interpreter {interpreter!r:.60} is not one of {', '.join(INTERPRETERS)}"
        raise DeclarationError("backend-invalid", message, ("interpreter",))
    if not text.strip():
        raise DeclarationError("backend-invalid", "a script backend needs `script` text")
    args = backend.get("interpreter_args") or []
    if not isinstance(args, list) or not all(isinstance(item, str | int | float) for item in args):
        message = "interpreter_args is not a list of words"
        raise DeclarationError("backend-invalid", message, ("interpreter_args",))
    return InlineScript(interpreter=interpreter, text=text, interpreter_args=tuple(map(str, args)))


def _external(backend: Mapping[str, Any]) -> External:
    """Read a backend of another package; its options are passed to that package unchecked."""
    ours = ("type", "package", "timeout_ms")
    package = _string(backend, "package")
    if package and not _PACKAGE.match(package):
        message = f"`package` is not the name of a package: {package!r:.60}"
        raise DeclarationError("backend-invalid", message, ("package",))
    return External(
        type=backend["type"],
        options={key: value for key, value in backend.items() if key not in ours},
        package=package,
    )


def not_provided(runs: External) -> str:
    """Return a message that names the package to install; "" if one provides the backend."""
    if is_provided(BACKENDS, runs.type):
        return ""
    near = nearest(runs.type, _FIELDS, most=1)
    meant = f"did you mean {near[0]!r}? " if near and not runs.package else ""
    # The name comes from the skill, and what is installed runs with the user's own rights.
    named = f"its skill names {runs.package}, look at it before you install it"
    which = named if runs.package else "install the package that does"
    return (
        f"{meant}no installed package provides the backend type {runs.type!r}, "
        f"an entry point of that name in {BACKENDS}: {which}"
    )


def _string(mapping: Mapping[str, Any], key: str) -> str:
    value = mapping.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        message = f"{key} is a {type(value).__name__}, not text"
        raise DeclarationError("backend-invalid", message, (key,))
    return value
