"""How a command is named and used: one line of usage, and the page of `tool --help`."""

import json
import re
from collections.abc import Iterator
from typing import Any

from skillpouch.shell.errors import CommandNameError
from skillpouch.shell.schema_shapes import alternatives, properties_of, required_of, resolved
from skillpouch.shell.text_values import enum_words
from skillpouch.shell.toolbox import ToolDef
from skillpouch.signatures.signature import JsonSchema
from skillpouch.text import clean

_LONGEST_DEFAULT = 60
_LONGEST_SCHEMA = 4_000
_WIDEST_COLUMN = 32


def usage_line(tool: ToolDef) -> str:
    """Return `get_user --id <integer> [--verbose]`; brackets are round what may be left out.

    Where a schema does not say what is required, brackets are round switches and defaults only.
    """
    root = tool.input_schema
    required = required_of(root)
    words = [tool.name]
    for name, schema in properties_of(root).items():
        flag = _flag(name, schema, root)
        words.append(f"[{flag}]" if _is_optional(name, schema, root, required) else flag)
    return " ".join(words)


def _is_optional(name: str, schema: Any, root: JsonSchema, required: list[str] | None) -> bool:
    if required is not None:
        return name not in required
    return "default" in resolved(schema, root) or _kinds(schema, root) == ["boolean"]


def _flag(name: str, schema: Any, root: JsonSchema) -> str:
    kinds = _kinds(schema, root)
    if kinds == ["boolean"]:
        return f"--{name}"
    return f"--{name} <{'|'.join(kinds)}>"


def _kinds(schema: Any, root: JsonSchema) -> list[str]:
    found = [kind for each in alternatives(schema, root) for kind in _kinds_of(each, root)]
    kinds = list(dict.fromkeys(found))
    return [kind for kind in kinds if kind != "null"] or kinds


def _kinds_of(schema: JsonSchema, root: JsonSchema) -> list[str]:
    if "enum" in schema:
        return [clean(word) for word in enum_words(schema["enum"])]
    kind = str(schema.get("type", "value"))
    if kind != "array":
        return [kind]
    items = schema.get("items")
    inner = [each.get("type", "enum") for each in alternatives(items, root)] if items else []
    return [f"{'|'.join(map(str, inner))}..."] if inner else ["array"]


def usage_page(tool: ToolDef) -> str:
    """Return what `tool --help` prints: usage, each flag, examples, and what comes out."""
    sections = [clean(tool.description).strip(), f"Usage: {usage_line(tool)}"]
    if properties_of(tool.input_schema):
        sections.append("Flags:\n" + "\n".join(_flag_lines(tool)))
    if tool.examples:
        sections.append("Examples:\n" + "\n".join(f"  {clean(each)}" for each in tool.examples))
    if tool.output_schema:
        sections.append(f"Output: {_json(tool.output_schema, _LONGEST_SCHEMA)}")
    sections.append(
        "Arguments can also come as --json '{…}', or from a pipe with --stdin-json;\n"
        "words without a flag fill the flags above in order."
    )
    return "\n\n".join(section for section in sections if section) + "\n"


def _flag_lines(tool: ToolDef) -> Iterator[str]:
    root = tool.input_schema
    properties = properties_of(root)
    flags = {name: _flag(name, schema, root) for name, schema in properties.items()}
    width = min(max(map(len, flags.values())), _WIDEST_COLUMN)
    for name, schema in properties.items():
        about = "; ".join(_about(name, resolved(schema, root), root))
        yield f"  {flags[name]:<{width}}  {about}".rstrip()


def _about(name: str, schema: JsonSchema, root: JsonSchema) -> Iterator[str]:
    """Yield what a flag's line says after its type."""
    description = schema.get("description")
    if isinstance(description, str) and description.strip():
        yield " ".join(clean(description).split())
    if name in (required_of(root) or ()):
        yield "required"
    if any(each.get("type") == "array" for each in alternatives(schema, root)):
        yield "may be repeated"
    if "default" in schema:
        yield f"default {_json(schema['default'], _LONGEST_DEFAULT)}"


def _json(value: Any, most: int) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= most else f"{text[:most]}…"


_LONGEST = 100


def one_line(text: str) -> str:
    """Return a text as one line, without what a reader does not see."""
    return " ".join(clean(text).split())


def full_lines(tool: ToolDef) -> str:
    """Return what a command does and, when it takes anything, how it is written."""
    line = f"- `{tool.name}`: {one_line(tool.description)}\n"
    if not properties_of(tool.input_schema):
        return line
    return f"{line}  Usage: `{usage_line(tool)}`\n"


def short_line(tool: ToolDef) -> str:
    """Return what a command does, in a sentence or a part of one."""
    text = one_line(tool.description)
    sentence = text.partition(". ")[0].removesuffix(".")
    if len(sentence) > _LONGEST:
        sentence = f"{sentence[:_LONGEST].rpartition(' ')[0] or sentence[:_LONGEST]} …"
    return f"- `{tool.name}`: {sentence}\n"


OWN_COMMANDS = ("help", "discover", "pmap", "job", "result")
_KEYWORDS = frozenset(
    (
        *("if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case"),
        *("esac", "in", "function", "select", "time", "coproc"),
    )
)
# The shell looks for these before it looks for commands of ours.
_SPECIAL = frozenset(
    (
        *("break", "continue", "return", "exit", "export", "readonly", "set", "unset", "shift"),
        *("source", "eval", "exec", "trap", "times", "local", "declare", "typeset"),
    )
)
_COMMAND = re.compile(r"[^\W\d][\w.:-]*\Z")


def check_command_name(name: str) -> None:
    """Raise CommandNameError unless a script can call a command by this name."""
    if name in _KEYWORDS:
        raise CommandNameError(name, "it is a word of the shell's own language")
    if name in _SPECIAL:
        raise CommandNameError(name, "the shell never looks for another command of this name")
    if name in OWN_COMMANDS:
        raise CommandNameError(name, "every script has a command of this name")
    if not _COMMAND.match(name):
        raise CommandNameError(name, "use only letters, digits, '_', '.', ':' and '-'")
