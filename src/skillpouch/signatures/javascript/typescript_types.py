"""TypeScript and JSDoc types as JSON Schema; a type that is not understood allows any value."""

from collections import Counter
from typing import NamedTuple

from skillpouch.signatures.javascript.jsdoc import read_doc
from skillpouch.signatures.javascript.tokens import Code, Span
from skillpouch.signatures.javascript.values import read_literal, text_of
from skillpouch.signatures.signature import JsonSchema, first_paragraph
from skillpouch.signatures.usage_lines import object_schema

_SIMPLE = {
    "string": "string",
    "number": "number",
    "boolean": "boolean",
    "bool": "boolean",
    "bigint": "integer",
    "integer": "integer",
    "int": "integer",
    "float": "number",
    "double": "number",
    "object": "object",
    "array": "array",
}
_KEYS = frozenset({"name", "string"})
_NOTHING = frozenset({"null", "undefined", "void"})
_LISTS = frozenset({"array", "readonlyarray", "set", "iterable"})
_TRANSPARENT = frozenset({"readonly", "required", "nonnullable"})
_DEEPEST = 12
_LONGEST_ALIAS = 1_000  # tokens; brackets with their content count as one
_MOST_USES = 8  # of one named type: more could make the schema grow exponentially


class _Member(NamedTuple):
    name: str
    schema: JsonSchema
    required: bool


class TypeReader:
    """Reads types of one text; `known` has the positions of its named types."""

    def __init__(self, code: Code, known: dict[str, Span]) -> None:
        self.code = code
        self.known = known
        self.uses = Counter[str]()
        self.open: set[str] = set()

    def read(self, span: Span, depth: int = 0) -> JsonSchema:
        """The schema of the type in this span; `{}` when it is not understood."""
        span = self._bare(span)
        if depth > _DEEPEST or span[0] >= span[1]:
            return {}
        choices = self.code.split(span, "|", angles=True)
        if len(choices) > 1:
            return self._union(choices, depth)
        parts = self.code.split(choices[0] if choices else span, "&", angles=True)
        if len(parts) > 1:
            return _merged([self.read(part, depth + 1) for part in parts])
        return self._single(parts[0] if parts else span, depth)

    def allows_nothing(self, span: Span) -> bool:
        """Whether the type can be `undefined`, so that the property may be left out."""
        return any(
            end - start == 1 and self.code[start].text == "undefined"
            for start, end in self.code.split(span, "|", angles=True)
        )

    def _bare(self, span: Span) -> Span:
        start, end = span
        while start < end and self.code[start].text in {"readonly", "?", "!"}:
            start += 1
        while start < end and self.code[start].text == "(" and self.code.after(start) == end:
            start, end = start + 1, end - 1
        return start, end

    def _union(self, choices: list[Span], depth: int) -> JsonSchema:
        words = [self._only_word(choice) for choice in choices]
        choices = [choice for choice, word in zip(choices, words, strict=True) if not word]
        values = [read_literal(self.code, choice) for choice in choices]
        if values and all(isinstance(value, str | int | float) for value in values):
            return _enumeration(values)
        schemas = [self.read(choice, depth + 1) for choice in choices]
        if not schemas or not all(schemas):
            return {}
        return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}

    def _only_word(self, span: Span) -> bool:
        return span[1] - span[0] == 1 and self.code[span[0]].text in _NOTHING

    def _single(self, span: Span, depth: int) -> JsonSchema:
        start, end = span
        if self.code.texts(end - 2, 2) == ("[", "]") and start < end - 2:
            items = self.read((start, end - 2), depth + 1)
            return {"type": "array", "items": items} if items else {"type": "array"}
        first = self.code[start]
        if first.text == "{" and self.code.after(start) == end:
            return self.members(start, depth)
        if first.text == "[" and self.code.after(start) == end:
            return {"type": "array"}
        if end - start == 1:
            return self._named(first.text, depth) or _constant(self.code, span)
        if first.kind == "name":
            return self._generic(span, depth)
        return {}

    def _named(self, name: str, depth: int) -> JsonSchema:
        if name in self.known:
            return self._known(name, depth)
        simple = _SIMPLE.get(name.lower())
        return {"type": simple} if simple else {}

    def _known(self, name: str, depth: int) -> JsonSchema:
        self.uses[name] += 1
        if name in self.open or self.uses[name] > _MOST_USES:
            return {"type": "object"}
        self.open.add(name)
        schema = self.read(self.known[name], depth + 1)
        self.open.remove(name)
        return schema

    def _generic(self, span: Span, depth: int) -> JsonSchema:
        """`Array<string>`, `Record<string, number>`, `Partial<Options>`."""
        start, end = span
        name = self.code[start].text.lower()
        opener = start + 2 if self.code[start + 1].text == "." else start + 1
        if self.code[opener].text != "<" or self.code[end - 1].text != ">":
            return {}
        inner = self.code.split((opener + 1, end - 1), ",", angles=True)
        if name in _LISTS and len(inner) == 1:
            items = self.read(inner[0], depth + 1)
            return {"type": "array", "items": items} if items else {"type": "array"}
        if name in {"record", "object"}:
            return {"type": "object"}
        if name == "partial" and len(inner) == 1:
            whole = self.read(inner[0], depth + 1)
            return {key: value for key, value in whole.items() if key != "required"}
        return self.read(inner[0], depth + 1) if name in _TRANSPARENT and inner else {}

    def members(self, opener: int, depth: int = 0) -> JsonSchema:
        """The object type whose brace opens here."""
        properties: dict[str, JsonSchema] = {}
        required: list[str] = []
        for span in self._member_spans(opener):
            if member := self._member(span, depth):
                properties[member.name] = member.schema
                required += [member.name] if member.required else []
        return object_schema(properties, required)

    def _member(self, span: Span, depth: int) -> _Member | None:
        start, doc = span[0], self.code[span[0]].doc
        if self.code[start].text == "readonly" and self.code[start + 1].kind in _KEYS:
            start += 1
        name, optional = self.code[start], self.code[start + 1].text == "?"
        colon = start + 1 + optional
        if name.kind not in _KEYS or self.code[colon].text != ":":
            return None
        value = (colon + 1, span[1])
        schema = self.read(value, depth + 1)
        if description := first_paragraph(read_doc(doc).description):
            schema = {**schema, "description": description}
        return _Member(text_of(name), schema, not optional and not self.allows_nothing(value))

    def _member_spans(self, opener: int) -> list[Span]:
        """Members end at `;`, at `,` or, with neither, at the next line that begins with a name."""
        spans: list[Span] = []
        inside = (opener + 1, self.code.after(opener) - 1)
        for line in self.code.split(inside, ";", angles=True):
            for part in self.code.split(line, ",", angles=True):
                spans.extend(self._by_line(part))
        return spans

    def _by_line(self, part: Span) -> list[Span]:
        starts = [part[0]]
        position = part[0]
        while position < part[1]:
            token = self.code[position]
            named = token.kind in _KEYS and token.first_on_line and position > starts[-1]
            if named and (self.code[position + 1].text in {":", "?"} or token.text == "readonly"):
                starts.append(position)
            position = self.code.after(position)
        return list(zip(starts, [*starts[1:], part[1]], strict=True))


def _enumeration(values: list[str | int | float]) -> JsonSchema:
    if all(isinstance(value, bool) for value in values):
        return {"type": "boolean"}
    texts = all(isinstance(value, str) for value in values)
    return {"type": "string", "enum": values} if texts else {"enum": values}


def _constant(code: Code, span: Span) -> JsonSchema:
    value = read_literal(code, span)
    return _enumeration([value]) if isinstance(value, str | int | float) else {}


def _merged(schemas: list[JsonSchema]) -> JsonSchema:
    """An intersection of object types; anything else allows anything."""
    properties: dict[str, JsonSchema] = {}
    required: list[str] = []
    for schema in schemas:
        if schema.get("type") != "object":
            return {}
        properties |= schema.get("properties", {})
        required += schema.get("required", [])
    return object_schema(properties, required)


def named_types(code: Code) -> dict[str, Span]:
    """Where the interfaces and type aliases of the top level are written."""
    known: dict[str, Span] = {}
    for position in code.find_outside("interface", "type"):
        name, after = code[position + 1], position + 2
        if name.kind != "name":
            continue
        if code[position].text == "interface" and code[after].text == "{":
            known[name.text] = (after, code.after(after))
        elif code[position].text == "type" and code[after].text == "=":
            known[name.text] = (after + 1, _end_of_alias(code, after + 1))
    return known


def _end_of_alias(code: Code, position: int) -> int:
    """An alias ends at `;`, or at a line whose first word is not an operator."""
    begin = position
    for _ in range(_LONGEST_ALIAS):
        token = code[position]
        goes_on = code[position - 1].text in {"|", "&", "="} or token.kind == "punctuation"
        if token.kind == "end" or token.text == ";" or (token.first_on_line and not goes_on):
            break
        position = code.after(position)
    return max(position, begin)
