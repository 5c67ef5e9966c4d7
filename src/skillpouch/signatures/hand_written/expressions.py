"""What an expression makes of the words of a command line."""

import ast
from collections.abc import Sequence
from typing import Any, ClassVar

from skillpouch.signatures.hand_written.decisions import Decisions
from skillpouch.signatures.hand_written.tracking import Fact, Tested
from skillpouch.signatures.hand_written.values import (
    UNKNOWN,
    Given,
    Joined,
    Known,
    Length,
    LoopIndex,
    Maybe,
    Place,
    Ref,
    Routine,
    UnclearError,
    Word,
    Words,
    call_on_text,
)
from skillpouch.signatures.javascript.expressions import (
    Coalesce,
    FunctionExpression,
    RegexLiteral,
    Unfollowed,
)


class Expressions(Decisions):
    """Follows expressions without calls."""

    VALUES: ClassVar[dict[type, str]] = {
        ast.Name: "_name",
        ast.Constant: "_constant",
        ast.Attribute: "_attribute",
        ast.Subscript: "_subscript",
        ast.BinOp: "_binary",
        ast.JoinedStr: "_formatted",
        ast.UnaryOp: "_unary",
        ast.BoolOp: "_logic",
        ast.IfExp: "_choice",
        ast.Compare: "_compare",
        ast.Lambda: "_lambda",
        ast.List: "_list",
        ast.Tuple: "_list",
        ast.Set: "_list",
        ast.Starred: "_starred",
        ast.Dict: "_dict",
        ast.Await: "_awaited",
        FunctionExpression: "_routine",
        RegexLiteral: "_regex",
        Unfollowed: "_unfollowed",
    }

    def _name(self, node: ast.Name, _: str) -> Any:
        origin = self.program.origins.get(node.id, "")
        if origin in self.program.argv:
            return Words(self.program.argv[origin])
        value = self.find(node.id)
        self.touch(value)
        return value

    def _constant(self, node: ast.Constant, _: str) -> Any:
        plain = isinstance(node.value, str | int | float | bool | None)
        return Known(node.value) if plain else UNKNOWN

    def _attribute(self, node: ast.Attribute, hint: str) -> Any:
        dotted = self.program.dotted(node)
        if dotted in self.program.argv:
            return Words(self.program.argv[dotted])
        owner = self.value(node.value)
        if node.attr == "length" and not self.program.is_python:
            return self.length(owner)
        return self.member(owner, node.attr, hint)

    def length(self, owner: Any) -> Any:
        if isinstance(owner, Ref) and owner.kind == "list":
            owner = self.items(owner)
        if isinstance(owner, Words):
            return Length(-owner.start, owner.base)
        if type(owner) is tuple:
            return Known(len(owner)) if UNKNOWN not in owner else UNKNOWN
        if isinstance(owner, Known) and isinstance(owner.value, str):
            return Known(len(owner.value))
        return UNKNOWN

    def member(self, owner: Any, key: str, hint: str = "") -> Any:
        if isinstance(owner, Maybe):
            owner = owner.value
        if isinstance(owner, Ref) and owner.kind == "object":
            if (owner, key) in self.env:
                return self.env[owner, key]
            return UNKNOWN if (owner, "...") in self.env else Known(None)
        if isinstance(owner, Word | Joined):
            self.touch(owner)
            self.name(owner, hint if isinstance(owner, Word) else "")
        return UNKNOWN

    def _subscript(self, node: ast.Subscript, hint: str) -> Any:
        owner = self.value(node.value)
        if isinstance(node.slice, ast.Slice):
            return self.part(owner, node.slice, node)
        index = self.value(node.slice)
        return self.element(owner, index, node, hint)

    def part(self, owner: Any, node: ast.Slice, where: ast.AST) -> Any:
        start = self.value(node.lower) if node.lower else Known(0)
        open_ended = node.upper is None and node.step is None
        stop = None if open_ended else [self.value(node.upper)]
        return self.cut(owner, start, stop, where)

    def cut(self, owner: Any, start: Any, stop: list[Any] | None, node: ast.AST) -> Any:
        """Return a part of a list or text: from a place, to the end unless `stop` is given."""
        if isinstance(owner, Maybe):
            inner = self.cut(owner.value, start, stop, node)
            return Maybe(inner, owner.default)
        if isinstance(owner, Ref) and owner.kind == "list":
            owner = self.items(owner)
        number = start.value if isinstance(start, Known) else None
        if isinstance(owner, Words):
            if stop or type(number) is not int or number < 0:
                raise UnclearError("it takes a part of its words that is not followed", node)
            return Words(owner.start + number, owner.base)
        self.touch(owner)
        if isinstance(owner, Known) and isinstance(owner.value, str):
            return call_on_text(owner.value, "slice", [start, *(stop or [])])
        return UNKNOWN if stop else _from(owner, number)

    def element(self, owner: Any, index: Any, node: ast.AST, hint: str = "") -> Any:
        if isinstance(owner, Maybe):
            made = self.element(owner.value, index, node, hint)
            return Maybe(made, owner.default) if isinstance(made, Word) else made
        if isinstance(owner, Ref) and owner.kind == "list":
            owner = self.items(owner)
        if isinstance(owner, Words):
            return self.word_by(owner, index, node)
        if isinstance(index, Known) and isinstance(index.value, str):
            return self.member(owner, index.value, hint)
        found = _at(owner, index)
        if found is None:
            self.use(owner, node)
        return UNKNOWN if found is None else found

    def word_by(self, words: Words, index: Any, node: ast.AST) -> Any:
        if isinstance(index, Known) and type(index.value) is int and index.value >= 0:
            return self.word(words, index.value, node)
        if isinstance(index, LoopIndex) and self.loop is not None and not words.base:
            return self.loop_word(index.plus + words.start - self.loop.words.start, node)
        if isinstance(index, Place) and not words.base:
            return self.found(index, node)
        raise UnclearError("it computes which of its words it reads", node)

    def _binary(self, node: ast.BinOp, hint: str) -> Any:
        left, right = self.value(node.left), self.value(node.right)
        sign = {ast.Add: 1, ast.Sub: -1}.get(type(node.op), 0)
        if sign and isinstance(right, Known) and type(right.value) is int:
            if isinstance(left, Length | Place | LoopIndex):
                return left._replace(plus=left.plus + sign * right.value)
            if isinstance(left, Known) and type(left.value) is int:
                return Known(left.value + sign * right.value)
        is_number = isinstance(left, Known) and type(left.value) is int
        if sign == 1 and is_number and isinstance(right, Length | Place | LoopIndex):
            return right._replace(plus=right.plus + left.value)
        if sign == 1 and _both_text(left, right):
            return Known(left.value + right.value)
        if sign == 1 and isinstance(left, Known) and isinstance(right, Words):
            raise UnclearError("it passes its words on as a whole", node)
        self.use(left, node, hint if isinstance(node.op, ast.Div) else "")
        self.use(right, node)
        return UNKNOWN

    def _formatted(self, node: ast.JoinedStr, _: str) -> Any:
        parts = [
            self.value(part.value if isinstance(part, ast.FormattedValue) else part)
            for part in node.values
        ]
        if all(isinstance(part, Known) and isinstance(part.value, str) for part in parts):
            return Known("".join(part.value for part in parts))
        for part in parts:
            if not isinstance(part, Joined):
                self.use(part, node)
        return UNKNOWN

    def _unary(self, node: ast.UnaryOp, hint: str) -> Any:
        if isinstance(node.op, ast.Not):
            return self.decide(node)
        operand = self.value(node.operand, hint)
        if isinstance(operand, Known) and type(operand.value) in (int, float):
            return Known(-operand.value) if isinstance(node.op, ast.USub) else operand
        if isinstance(node.op, ast.UAdd) and isinstance(operand, Word):
            self.reading.of(operand).kind = "number"
            return operand
        self.use(operand, node)
        return UNKNOWN

    def _logic(self, node: ast.BoolOp, hint: str) -> Any:
        value = self.value(node.values[0], hint)
        for following in node.values[1:]:
            value = self._next_operand(node, value, following, hint)
        return value

    def _next_operand(self, node: ast.BoolOp, left: Any, right: ast.expr, hint: str) -> Any:
        decision = self.truth(left, node)
        if isinstance(node.op, Coalesce):
            if isinstance(left, Known) and left is not UNKNOWN:
                return self.value(right, hint) if left.value is None else left
            decision = Tested(None, decision.yes, decision.no)
        is_and = isinstance(node.op, ast.And)
        if decision.truth is not None and not isinstance(node.op, Coalesce):
            return self.value(right, hint) if decision.truth is is_and else left
        with_facts = decision.yes if is_and else decision.no
        other = self.under(with_facts, right, hint)
        if is_and:
            return Maybe(other) if isinstance(other, Word | Joined) else other
        if isinstance(left, Given) and isinstance(other, Given):
            self.reading.alike.append(left.flags + other.flags)
            return Given(left.flags + other.flags)
        return self._with_default(left, other, empty=not isinstance(node.op, Coalesce))

    def _with_default(self, left: Any, default: Any, *, empty: bool) -> Any:
        """`word || default`: an empty word is as good as none, except for `??`."""
        word = left.value if isinstance(left, Maybe) else left
        if isinstance(word, Word) and word.kind in ("at", "plain"):
            about = self.reading.of(word)
            about.skippable = about.skippable or empty
        return self.merged(left, default)

    def under(self, facts: Sequence[Fact], node: ast.AST, hint: str = "") -> Any:
        """Return the value of an expression that is reached only under a condition."""
        known, left = len(self.facts), self.left
        self.facts += facts
        self.conditional += 1
        try:
            return self.value(node, hint)
        finally:
            self.conditional -= 1
            del self.facts[known:]
            self.left = left

    def _choice(self, node: ast.IfExp, hint: str) -> Any:
        decision = self.decided(node.test)
        if decision.truth is not None:
            return self.value(node.body if decision.truth else node.orelse, hint)
        body = self.under(decision.yes, node.body, hint)
        return self.merged(body, self.under(decision.no, node.orelse, hint))

    def _routine(self, node: FunctionExpression, _: str) -> Any:
        return Routine(
            parameters=node.parameters,
            body=lambda: node.body,
            names=node.names,
            scope=self.scope,
            size=node.size,
        )

    def _lambda(self, node: ast.Lambda, _: str) -> Any:
        return self.python_routine(node, [ast.Return(value=node.body)])

    def python_routine(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, body: list[ast.stmt]
    ) -> Routine:
        arguments = [*node.args.posonlyargs, *node.args.args]
        names: list[ast.expr] = [ast.Name(id=one.arg, ctx=ast.Store()) for one in arguments]
        defaults = node.args.defaults
        for at, default in enumerate(defaults, len(names) - len(defaults)):
            names[at] = ast.NamedExpr(target=names[at], value=default)  # type: ignore[arg-type]  # a Name
        return Routine(
            parameters=names,
            body=lambda: body,
            names=frozenset(_names_in(node)),
            scope=self.scope,
            size=10 * len(body),
        )

    def _list(self, node: ast.List | ast.Tuple | ast.Set, _: str) -> Any:
        values = [self.value(element) for element in node.elts]
        if len(values) == 1 and isinstance(node.elts[0], ast.Starred):
            return values[0]
        for value in values:
            if isinstance(value, Words):
                self.use(value, node)
        plain = tuple(UNKNOWN if isinstance(each, Words) else each for each in values)
        if isinstance(node, ast.Tuple | ast.Set):
            return plain
        ref = self.new("list")
        self.env[ref, "items"] = plain
        return ref

    def _starred(self, node: ast.Starred, _: str) -> Any:
        return self.value(node.value)

    def _dict(self, node: ast.Dict, _: str) -> Any:
        ref = self.new("object")
        for key, child in zip(node.keys, node.values, strict=True):
            name = self.value(key) if key is not None else UNKNOWN
            text = name.value if isinstance(name, Known) and isinstance(name.value, str) else ""
            value = self.value(child, text)
            if isinstance(value, Words) and value.base != "plain":
                self.use(value, node, text)
            self.name(value, text)
            self.env[ref, text or "..."] = value
        return ref

    def _awaited(self, node: ast.Await, hint: str) -> Any:
        return self.value(node.value, hint)

    def _unfollowed(self, node: Unfollowed, _: str) -> Any:
        for part in node.elts:
            value = self.value(part)
            if isinstance(value, Words | Joined):
                raise UnclearError("it uses its words in a way that is not followed", part)
            self.use(value, part)
        return UNKNOWN

    def _regex(self, _node: RegexLiteral, _: str) -> Any:
        return UNKNOWN


def _both_text(left: Any, right: Any) -> bool:
    return all(isinstance(each, Known) and isinstance(each.value, str) for each in (left, right))


def _names_in(node: ast.AST) -> set[str]:
    found = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            found.add(part.id)
        elif isinstance(part, ast.Attribute):
            found.add(part.attr)
    return found


def _from(owner: Any, number: Any) -> Any:
    """Return what is left of a value behind some items or characters."""
    if isinstance(owner, Joined) and number == len(owner.prefix):
        return owner.tail
    return owner[number:] if type(owner) is tuple and type(number) is int else UNKNOWN


def _at(owner: Any, index: Any) -> Any:
    """Return an item or a character; None if it is not known which."""
    number = index.value if isinstance(index, Known) else None
    if type(owner) is tuple and type(number) is int:
        return owner[number] if -len(owner) <= number < len(owner) else Known(None)
    if isinstance(owner, Known) and isinstance(owner.value, str):
        return call_on_text(owner.value, "charAt", [index])
    if isinstance(owner, Joined) and number == 0:
        return Known(owner.prefix[0])
    if isinstance(owner, Word) and number == 0:
        return Maybe(owner, "first")  # its first character, for a comparison with a dash
    return None


def target_name(node: ast.AST | None) -> str:
    """Return the name of a variable or member that is set."""
    if isinstance(node, ast.NamedExpr):
        node = node.target
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return str(node.slice.value)
    return ""
