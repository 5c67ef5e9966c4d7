"""Docstrings and the comment at the head of a program."""

import ast
import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from skillpouch.signatures.python.annotations import schema_of
from skillpouch.signatures.python.scopes import Scope
from skillpouch.signatures.signature import JsonSchema, first_paragraph

# A docstring without any of these describes no parameters: the library need not be loaded.
_SECTIONS = ("Args:", "Arguments:", "Params:", "Parameters", "Keyword", ":param", "@param")
_LONGEST = 20_000

# Words that people write for a type and Python does not know.
_WORDS = {
    "string": "str",
    "text": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "array": "list",
    "object": "dict",
    "dictionary": "dict",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Documented:
    """One parameter; `optional` is True only when the docstring says so."""

    name: str
    description: str = ""
    type: str = ""
    optional: bool = False

    def schema(self, scope: Scope) -> JsonSchema:
        """Return the schema of the type; words that are not understood allow any value."""
        text = self.type.strip().strip("`").removesuffix("optional").rstrip(" ,")
        items, _, of = text.partition(" of ")
        if of and items.lower() in ("list", "array", "sequence"):
            inner = Documented(name=self.name, type=of.removesuffix("s")).schema(scope)
            return {"type": "array", "items": inner} if inner else {"type": "array"}
        types = [_WORDS.get(part.strip().lower(), part) for part in text.split(" or ")]
        return schema_of(ast.Constant(" | ".join(types)), scope) if text else {}


def documented_parameters(docstring: str | None) -> dict[str, Documented]:
    """Return what a docstring says about each parameter, by name."""
    if not docstring or len(docstring) > _LONGEST:
        return {}
    if not any(section in docstring for section in _SECTIONS):
        return {}
    from docstring_parser import ParseError, parse

    found: dict[str, Documented] = {}
    with contextlib.suppress(ParseError, ValueError, LookupError, AttributeError, TypeError):
        for parameter in parse(docstring).params:
            name = parameter.arg_name.lstrip("*")
            found[name] = Documented(
                name=name,
                description=" ".join((parameter.description or "").split()),
                type=parameter.type_name or "",
                optional=bool(parameter.is_optional or parameter.default is not None),
            )
    return found


_LONGEST_HEAD = 50_000

_DOCSTRING = re.compile(r"[rRuUbB]{0,2}(\"\"\"|''')")
_FOR_MACHINES = re.compile(
    r"""!|-\*-|coding[:=]|vim?:|vim:|mode:|type:|noqa|flake8:|ruff:|pylint:|mypy:|pyright:|fmt:
    |isort:|yapf:|nosec|pragma:|region\b|endregion\b|%%|(?:author|date|version|created|copyright
    |license|licence|file|filename|email|maintainer|modified)s?(?:\ on|\ by)?\s*:|\$\w+""",
    re.IGNORECASE | re.VERBOSE,
)
_LICENCE = re.compile(
    r"""copyright|\(c\)\s*\d{4}|©|spdx-|all\ rights\ reserved|permission\ is\ hereby|redistribution
    |licen[cs]ed\ under|under\ the\ (?:terms|\w+\ licen[cs]e)|the\ licen[cs]e\b|this\ licen[cs]e
    |(?:mit|bsd|apache|mozilla|gnu|public)[\w\ .-]*\ licen[cs]e|free\ software|without\ warrant
    |you\ should\ have\ received|unless\ required\ by\ applicable\ law|^https?://""",
    re.IGNORECASE | re.VERBOSE,
)


def leading_comment(text: str) -> str:
    """Return the first paragraph of the comments at the top that describes the program.

    The shebang, the coding line, licences, notes to editors and linters and PEP 723 blocks do not.
    """
    for paragraph in _paragraphs(_comment_lines(text)):
        described = first_paragraph(paragraph)
        if described and not _LICENCE.search(described):
            return described
    return ""


def leading_docstring(text: str) -> str:
    """Return the docstring of a file that Python itself cannot read, "" when it has none."""
    lines = text[:_LONGEST_HEAD].splitlines()
    first = next((n for n, line in enumerate(lines) if line.strip() and line[0] != "#"), None)
    if first is None:
        return ""
    rest = "\n".join(lines[first:])
    opening = _DOCSTRING.match(rest)
    return rest[opening.end() :].partition(opening[1])[0] if opening else ""


def _comment_lines(text: str) -> Iterator[str]:
    """Yield the comment lines above the first statement, without their marks."""
    in_block = False
    for line in text[:_LONGEST_HEAD].splitlines():
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            return
        if stripped.startswith("# ///"):
            in_block = stripped != "# ///"
            stripped = ""
        body = stripped.lstrip("#").strip()
        machine = in_block or stripped.startswith("#!") or _FOR_MACHINES.match(body)
        yield "" if machine else body


def _paragraphs(lines: Iterator[str]) -> Iterator[str]:
    paragraph: list[str] = []
    for line in lines:
        if line:
            paragraph.append(line)
        elif paragraph:
            yield "\n".join(paragraph)
            paragraph = []
    if paragraph:
        yield "\n".join(paragraph)
