"""What can be told of templates when they are read: whether they parse, and whom they mention."""

from collections.abc import Iterator, Mapping
from typing import Any

from skillpouch.declarations.declared import DeclarationError, Declared
from skillpouch.errors import nearest
from skillpouch.problems import Severity
from skillpouch.registry.names import argument_variable
from skillpouch.templates import ArgvTemplate, TemplateError, TextTemplate, VariableInWordsError
from skillpouch.tools import Binary, Http, InlineScript, Runs

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
    """Return what is odd about how a declared tool gets its arguments; it loads all the same."""
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
            return frozenset()  # reported where the position of the text is known
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
                f"tool {tool!r}: {' and '.join(several)} want the variable {variable}, so none "
                "of them gets it: rename one, or read TOOL_ARGS"
            )
            yield _problem("variable-collision", message)
