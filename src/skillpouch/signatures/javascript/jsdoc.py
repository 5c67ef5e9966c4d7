"""JSDoc comments: the description, the parameters and the types that a comment defines."""

import re
from dataclasses import dataclass
from typing import NamedTuple

_TAG = re.compile(r"@([A-Za-z]+)\b[ \t]*(.*)", re.DOTALL)
_DESCRIBES = frozenset({"description", "desc", "summary", "fileoverview", "file", "overview"})
_PARAMETERS = frozenset({"param", "arg", "argument", "property", "prop"})
_BRACKETS = {"{": "}", "[": "]"}


class DocParameter(NamedTuple):
    """`@param {type} [name=default] - description`; `name` may be a path such as `args.text`."""

    name: str
    type: str = ""
    optional: bool = False
    default: str | None = None
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doc:
    description: str = ""
    parameters: tuple[DocParameter, ...] = ()
    defines: str = ""  # the name of a `@typedef`, whose properties are the parameters
    defined_as: str = ""  # its type, when it is written whole


def read_doc(comment: str) -> Doc:
    """Read one `/** … */` comment."""
    texts, parameters, defines, defined_as = [], [], "", ""
    for section in _sections(comment):
        tag = _TAG.match(section)
        if tag is None:
            texts.append(section)
        elif tag.group(1) in _DESCRIBES:
            texts.append(tag.group(2))
        elif tag.group(1) in _PARAMETERS:
            parameters.append(_read_parameter(tag.group(2)))
        elif tag.group(1) == "typedef":
            defined_as, rest = _bracketed(tag.group(2))
            defines = (rest.split() or [""])[0]
    return Doc(
        description="\n\n".join(texts).strip(),
        parameters=tuple(parameters),
        defines=defines,
        defined_as=defined_as,
    )


def comment_lines(comment: str) -> list[str]:
    """The lines of a `/* … */` comment without its stars."""
    body = comment.removeprefix("/*").lstrip("*!").removesuffix("*/")
    lines = [line.strip() for line in body.split("\n")]
    return [line[1:].strip() if line[:1] == "*" else line for line in lines]


def _sections(comment: str) -> list[str]:
    """The text before the first tag, then each tag with the lines that belong to it."""
    sections: list[list[str]] = [[]]
    for line in comment_lines(comment):
        if line.startswith("@"):
            sections.append([])
        sections[-1].append(line)
    return ["\n".join(section).strip() for section in sections]


def _read_parameter(text: str) -> DocParameter:
    kind, rest = _bracketed(text)
    if rest.startswith("["):
        inside, description = _bracketed(rest, "[")
        name, equals, default = inside.partition("=")
        known = default.strip() if equals else None
        optional = True
    else:
        name, description = [*rest.split(None, 1), "", ""][:2]
        known, optional = None, kind.endswith("=")
    return DocParameter(
        name=name.strip(),
        type=kind.removesuffix("=").removeprefix("..."),
        optional=optional,
        default=known,
        description=" ".join(description.lstrip(" \t\n-–—:").split()),  # noqa: RUF001
    )


def _bracketed(text: str, opener: str = "{") -> tuple[str, str]:
    """The text in brackets at the beginning, which may hold more of them, and what follows."""
    if not text.startswith(opener):
        return "", text.strip()
    depth = 0
    for position, character in enumerate(text):
        depth += (character == opener) - (character == _BRACKETS[opener])
        if depth == 0:
            return text[1:position].strip(), text[position + 1 :].strip()
    return "", text[1:].strip()
