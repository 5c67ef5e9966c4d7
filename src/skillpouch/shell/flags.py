"""Reads the words after a command as arguments: flags, JSON and plain words, typed by a schema."""

import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from skillpouch.json_values import NO_VALUE, json_value
from skillpouch.runtime.memoize import memoize_by_id
from skillpouch.shell.errors import (
    FlagError,
    FlagValueError,
    MissingFlagValueError,
    NotAnObjectError,
    SwitchValueError,
    UnexpectedWordError,
    UnknownFlagError,
    near_flags,
    shown,
)
from skillpouch.shell.schema_shapes import alternatives, properties_of, required_of, resolved
from skillpouch.shell.text_values import (
    enum_hint,
    expected_by,
    one_reader,
    simple_value,
    text_value,
)
from skillpouch.shell.toolbox import ToolDef
from skillpouch.shell.usage import usage_line
from skillpouch.signatures.command_line import Alias, aliases_of
from skillpouch.signatures.signature import JsonSchema

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SHORT = re.compile(r"-[^\W\d]")


def property_named(written: str, properties: Mapping[str, Any]) -> str | None:
    """Return the property that a flag names; exactly as written before any other spelling."""
    if written in properties:
        return written
    wanted = _plain(written)
    return next((name for name in properties if _plain(name) == wanted), None) if wanted else None


def _plain(name: str) -> str:
    return _HUMP.sub("_", name).replace("-", "_").lower()


def is_short_flag(word: str) -> bool:
    """Tell `-v` from `-5`, from `-` and from `- a line of a list`."""
    return _SHORT.match(word) is not None


def takes_raw_words(properties: Mapping[str, Any], root: JsonSchema) -> bool:
    """Tell a script that is known to read its argv, and nothing else of it: `{"args": [text]}`."""
    return set(properties) == {"args"} and _first_kind(properties["args"], root) == "array"


def fill(
    params: dict[str, Any], words: Sequence[str], tool: ToolDef, properties: Mapping[str, Any]
) -> None:
    """Give plain words to the parameters that are still open; a switch is never one of them."""
    rest, root = deque(words), tool.input_schema
    open_names = deque(
        name
        for name, schema in properties.items()
        if rest and name not in params and not _is_switch(schema, root)
    )
    while rest and open_names:
        name = open_names.popleft()
        taken = [rest.popleft() for _ in range(_count(name, properties, root, rest, open_names))]
        params[name] = _value(name, taken, properties[name], tool)
    if rest:
        raise UnexpectedWordError(rest[0], hint=f"usage: {usage_line(tool)}")


def _count(
    name: str,
    properties: Mapping[str, Any],
    root: JsonSchema,
    rest: Sequence[str],
    later: Sequence[str],
) -> int:
    """Return how many words a parameter takes: a list leaves one to each that must have one."""
    kind = _first_kind(properties[name], root)
    if kind == "array":
        required = set(required_of(root) or ())
        return max(1, len(rest) - sum(other in required for other in later))
    return len(rest) if kind == "" and not later else 1


def _value(name: str, words: Sequence[str], schema: Any, tool: ToolDef) -> Any:
    root = tool.input_schema
    kind = _first_kind(schema, root)
    if kind == "" and len(words) > 1:
        return list(words)
    values = [_read(name, word, schema, tool) for word in words]
    if kind != "array":
        return values[0]
    return [item for value in values for item in value]


def _read(name: str, word: str, schema: Any, tool: ToolDef) -> Any:
    root = tool.input_schema
    value = text_value(word, schema, root)
    if value is NO_VALUE:
        hint = enum_hint(word, schema, root) or f"usage: {usage_line(tool)}"
        raise FlagValueError(f"--{name}", word, expected_by(schema, root), hint=hint)
    return value


def _first_kind(schema: Any, root: JsonSchema) -> str:
    """Return the type that a word is first read as, "" when any text will do."""
    for each in alternatives(schema, root):
        if each.get("type") != "null":
            return "enum" if "enum" in each else str(each.get("type", ""))
    return "null"


def _is_switch(schema: Any, root: JsonSchema) -> bool:
    kinds = {each.get("type") for each in alternatives(schema, root)}
    return "boolean" in kinds and kinds <= {"boolean", "null"}


Read = Callable[[str], Any]
_UNSHOWN: dict[str, Any] = {"data": {}}  # what a script without parameters still takes


class Parameters:
    """The properties of a schema, and the simple schemas that a value of each may fit."""

    __slots__ = ("_readers", "_simple", "are_raw", "properties", "root")

    def __init__(self, root: JsonSchema) -> None:
        self.root = root
        # The executor refuses `data` for tools that do not take it.
        unshown = _UNSHOWN if root.get("additionalProperties") is False else {}
        self.properties = properties_of(root) or unshown
        self.are_raw = takes_raw_words(self.properties, root)
        self._simple: dict[str, tuple[list[JsonSchema], frozenset[Any]]] = {}
        self._readers: dict[str, Read | None] = {}

    def simple(self, name: str) -> tuple[list[JsonSchema], frozenset[Any]]:
        """Return what a value may fit, and the types among it; None is the one of an enum."""
        found = self._simple.get(name)
        if found is None:
            schemas = alternatives(self.properties[name], self.root)
            kinds = frozenset(each.get("type") for each in schemas)
            found = self._simple[name] = schemas, kinds
        return found

    def pairs(self, words: Sequence[str]) -> dict[str, Any] | None:
        """Return what `--name value --other value` spells; None for a line that says anything else.

        Most lines are nothing but that, and then there is nothing to weigh.
        """
        if len(words) % 2:
            return None
        found: dict[str, Any] = {}
        for at in range(0, len(words), 2):
            flag, text = words[at], words[at + 1]
            name = flag[2:]
            if not name or flag[:2] != "--" or text[:2] == "--" or name in found:
                return None
            read = self._readers[name] if name in self._readers else self._reader(name)
            value = NO_VALUE if read is None else read(text)
            if value is NO_VALUE:
                return None
            found[name] = value
        return found

    def _reader(self, name: str) -> Read | None:
        if name not in self.properties or "=" in name:
            return None  # and it is not kept: scripts may write any number of such names
        self._readers[name] = read = one_reader(self.simple(name)[0])
        return read


parameters_of = memoize_by_id(Parameters)  # once for each schema


__all__ = ["FlagError", "Flags", "read_flags"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """What a command line asks for; `uses_stdin` when its arguments came from standard input."""

    params: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    help: bool = False
    uses_stdin: bool = False


def read_flags(words: Sequence[str], tool: ToolDef, stdin: str | None) -> Flags:
    """Return the arguments that words spell for a tool; raise FlagError when they spell none."""
    parameters = parameters_of(tool.input_schema)
    pairs = parameters.pairs(words)
    if pairs is not None:
        return Flags(params=pairs)
    reader = _Reader(tool, stdin, parameters)
    reader.read(words)
    return reader.flags()


class _Reader:
    """Takes words one by one; a flag counts more than `--json`, a plain word comes last."""

    def __init__(self, tool: ToolDef, stdin: str | None, parameters: Parameters) -> None:
        self._tool = tool
        self._stdin = stdin
        self._root = tool.input_schema
        self._parameters = parameters
        self._properties = parameters.properties
        self._is_raw = parameters.are_raw
        self._aliases = aliases_of(tool.plan) if tool.plan else {}
        self._objects: dict[str, Any] = {}
        self._given: dict[str, Any] = {}
        self._plain: list[str] = []
        self._notes: list[str] = []
        self._help = False
        self._uses_stdin = False

    def flags(self) -> Flags:
        if self._help:
            return Flags(help=True)
        params = {**self._objects, **self._given}
        if self._plain:
            fill(params, self._plain, self._tool, self._properties)
        return Flags(params=params, notes=tuple(self._notes), uses_stdin=self._uses_stdin)

    def read(self, words: Sequence[str]) -> None:
        rest = deque(words)
        while rest and not self._help:
            word = rest.popleft()
            if word == "--":
                self._plain += rest
                return
            if word.startswith("--"):
                self._flag(word, rest)
            elif is_short_flag(word):
                self._short(word, rest)
            else:
                self._plain.append(word)

    def _flag(self, word: str, rest: deque[str]) -> None:
        written, equals, text = word[2:].partition("=")
        value = text if equals else None
        name = property_named(written, self._properties)
        alias = self._aliases.get(written)
        if name is not None:
            self._put(f"--{written}", name, value, rest)
        elif alias is not None:
            self._put_alias(f"--{written}", alias, value, rest)
        elif written in ("help", "json", "stdin-json"):
            self._own(written, value, rest)
        elif not self._switched_off(written, value):
            self._unknown(word, value, rest)

    def _short(self, word: str, rest: deque[str]) -> None:
        if word[1:] in self._properties:
            self._put(word, word[1:], None, rest)
        elif word[1:] in self._aliases:
            self._put_alias(word, self._aliases[word[1:]], None, rest)
        elif self._is_raw:
            self._plain.append(word)
        elif word == "-h":
            self._help = True
        else:
            raise UnknownFlagError(word, known=self._properties, usage=usage_line(self._tool))

    def _own(self, name: str, value: str | None, rest: deque[str]) -> None:
        if name == "json":
            text = value if value is not None else rest.popleft() if rest else ""
            self._add_object("--json", text)
        elif value is not None:
            raise SwitchValueError(f"--{name}")
        elif name == "help":
            self._help = True
        else:
            self._uses_stdin = True
            self._add_object("--stdin-json", self._stdin or "")

    def _add_object(self, flag: str, text: str) -> None:
        value = json_value(text)
        if not isinstance(value, dict):
            raise NotAnObjectError(flag, text)
        self._objects.update(value)

    def _put_alias(self, flag: str, alias: Alias, text: str | None, rest: deque[str]) -> None:
        """Set a parameter by a flag of its script that has another name than the parameter."""
        if not alias.inverts:
            self._put(flag, alias.name, text, rest)
        elif text is not None:
            raise SwitchValueError(flag)
        else:
            self._set(flag, alias.name, False)

    def _put(self, flag: str, name: str, text: str | None, rest: deque[str]) -> None:
        if text is None:
            text = self._next(flag, name, rest)
        if text is None:
            self._set(flag, name, True)
            return
        value = simple_value(text, self._parameters.simple(name)[0], self._root)
        if value is NO_VALUE:
            self._refuse(flag, text, self._properties[name])
        self._set(flag, name, value)

    def _next(self, flag: str, name: str, rest: deque[str]) -> str | None:
        """Take the value of a flag from the words after it; None for a switch, which needs none."""
        kinds = self._parameters.simple(name)[1]
        if kinds <= {"boolean", "null"}:
            return rest.popleft() if rest and rest[0].lower() in ("true", "false") else None
        if "boolean" in kinds and (not rest or rest[0].startswith("--")):
            return None
        if not rest:
            raise MissingFlagValueError(flag, expected_by(self._properties[name], self._root))
        # Whatever it looks like: a value from a variable must never become a flag.
        text = rest.popleft()
        if text.startswith("--") and self._is_known(text):
            self._notes.append(f"{flag} took {shown(text)} for its value")
        return text

    def _is_known(self, word: str) -> bool:
        name = word[2:].partition("=")[0]
        return name in self._aliases or property_named(name, self._properties) is not None

    def _value(self, flag: str, text: str, schema: Any) -> Any:
        value = text_value(text, schema, self._root)
        if value is NO_VALUE:
            self._refuse(flag, text, schema)
        return value

    def _refuse(self, flag: str, text: str, schema: Any) -> NoReturn:
        expected = expected_by(schema, self._root)
        if text.startswith("--"):
            raise MissingFlagValueError(flag, expected)
        hint = enum_hint(text, schema, self._root) or f"usage: {usage_line(self._tool)}"
        raise FlagValueError(flag, text, expected, hint=hint)

    def _set(self, flag: str, name: str, value: Any) -> None:
        before = self._given.get(name)
        if isinstance(before, list) and isinstance(value, list):
            before.extend(value)
            return
        if name in self._given:
            self._notes.append(f"{flag} is given more than once; the last one counts")
        self._given[name] = list(value) if isinstance(value, list) else value

    def _switched_off(self, written: str, value: str | None) -> bool:
        """Read `--no-flag`: false for a switch, null or an empty list for what can be that."""
        name = property_named(written[3:], self._properties) if _says_no(written) else None
        if name is None:
            return False
        kinds = self._parameters.simple(name)[1]
        found = [off for kind, off in _OFF.items() if kind in kinds]
        if not found:
            return False
        if value is not None:
            raise SwitchValueError(f"--{written}")
        self._set(f"--{written}", name, found[0])
        return True

    def _unknown(self, word: str, value: str | None, rest: deque[str]) -> None:
        if self._is_raw:
            self._plain.append(word)
            return
        flag, name = word.partition("=")[0], word[2:].partition("=")[0]
        schema = self._schema_of_others(flag, name)
        if value is None and rest and not rest[0].startswith("--"):
            value = rest.popleft()
        self._set(flag, name, True if value is None else self._value(flag, value, schema))

    def _schema_of_others(self, flag: str, name: str) -> Any:
        """Return the schema of properties that have no name in it; refuse when there are none."""
        root = resolved(self._root, self._root)
        others = root.get("additionalProperties", root.get("unevaluatedProperties"))
        if not name or (others is False and not root.get("patternProperties")):
            raise UnknownFlagError(flag, known=self._properties, usage=usage_line(self._tool))
        near = near_flags(flag, self._properties)
        if near:
            self._notes.append(
                f"no flag {shown(flag)[1:-1]}, kept as text; did you mean {near[0]}?"
            )
        elif self._properties and others is None:
            self._notes.append(f"no flag {shown(flag)[1:-1]}, kept as text")
        return others


def _says_no(written: str) -> bool:
    return written.startswith(("no-", "no_"))


_OFF: dict[str, Any] = {"boolean": False, "null": None, "array": []}
