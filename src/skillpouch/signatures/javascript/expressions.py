"""Expressions of JavaScript as Python's syntax tree, so that one reader follows both languages.

Whatever has no counterpart becomes an `Unfollowed` with the names it mentions: who follows a name
through the tree sees that it is used, and that how is unknown. The `lineno` of a node is its
offset in the text.
"""

import ast
from abc import ABC, abstractmethod
from functools import cached_property
from typing import ClassVar, Self

from skillpouch.signatures.javascript.functions import function_at
from skillpouch.signatures.javascript.tokens import Code, Span
from skillpouch.signatures.javascript.values import NOT_LITERAL, read_literal, text_of

_DEEPEST = 60


class Unfollowed(ast.expr):
    """Something without a counterpart in Python, and the expressions it may use."""

    _fields: ClassVar[tuple[str, ...]] = ("elts",)

    def __init__(self, elts: list[ast.expr]) -> None:
        super().__init__()
        self.elts = elts


class Increment(ast.expr):
    """`++i`, `i++`, `--i` or `i--`; the value is the new one if `is_prefix`."""

    _fields: ClassVar[tuple[str, ...]] = ("target",)

    def __init__(self, target: ast.expr, step: int, *, is_prefix: bool) -> None:
        super().__init__()
        self.target, self.step, self.is_prefix = target, step, is_prefix


class RegexLiteral(ast.expr):
    """A regular expression between slashes, with its flags."""

    _fields: ClassVar[tuple[str, ...]] = ()

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class Coalesce(ast.boolop):
    """`??`: the second value if there is no first."""


class UnexpectedError(Exception):
    """A token that is not expected there."""


_BINARY = {
    "??": 1,
    "||": 2,
    "&&": 3,
    "|": 4,
    "^": 5,
    "&": 6,
    **dict.fromkeys(("==", "!=", "===", "!=="), 7),
    **dict.fromkeys(("<", ">", "<=", ">=", "in", "instanceof"), 8),
    **dict.fromkeys(("+", "-"), 10),
    **dict.fromkeys(("*", "/", "%"), 11),
}
_ARITHMETIC: dict[str, type[ast.operator]] = {
    "+": ast.Add,
    "-": ast.Sub,
    "*": ast.Mult,
    "/": ast.Div,
    "%": ast.Mod,
}
_COMPARISONS: dict[str, type[ast.cmpop]] = {
    "==": ast.Eq,
    "===": ast.Eq,
    "!=": ast.NotEq,
    "!==": ast.NotEq,
    "<": ast.Lt,
    "<=": ast.LtE,
    ">": ast.Gt,
    ">=": ast.GtE,
}
_LOGIC: dict[str, type[ast.boolop]] = {"&&": ast.And, "||": ast.Or, "??": Coalesce}
_ASSIGNING = frozenset({"=", "+=", "-=", "*=", "/=", "%=", "??=", "||=", "&&="})
_UNARY: dict[str, type[ast.unaryop]] = {"!": ast.Not, "-": ast.USub, "+": ast.UAdd}
_WORDS = {"true": True, "false": False, "null": None, "undefined": None}
_UNARY_WORDS = frozenset({"typeof", "void", "delete", "yield"})
_NO_OPERAND = frozenset({")", "]", "}", ",", ";", ":", "=>", "."})
RESERVED = frozenset(
    [
        *("if", "else", "for", "while", "do", "switch", "case", "default", "return", "throw"),
        *("try", "catch", "finally", "break", "continue", "const", "let", "var"),
        *("import", "export"),
    ]
)


class ExpressionParser(ABC):
    """Reads the expressions of a span of tokens; a subclass reads statements."""

    @abstractmethod
    def statements(self) -> list[ast.stmt]:
        """Read the statements of a function that is an expression."""

    @abstractmethod
    def parameter(self) -> ast.expr:
        """Read one parameter of such a function."""

    def __init__(self, code: Code, span: Span) -> None:
        self.code = code
        self.at, self.end = span
        self.depth = 0

    @property
    def text(self) -> str:
        """The text of the next token, "" for a string, so that none is taken for an operator."""
        if self.at >= self.end:
            return ""
        token = self.code.tokens[self.at]
        return token.text if token.kind in ("punctuation", "name") else ""

    def take(self, *texts: str) -> bool:
        if self.at < self.end and self.text in texts:
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.take(text):
            raise UnexpectedError

    def starts_line(self) -> bool:
        return self.at >= self.end or self.code.tokens[self.at].first_on_line

    def inner(self) -> Self:
        """Take the bracket that opens here; return a parser of what it holds."""
        opener = self.at
        closer = self.code.partners.get(opener, -1)
        if closer < opener or closer >= self.end:
            raise UnexpectedError
        self.at = closer + 1
        inner = type(self)(self.code, (opener + 1, closer))
        inner.depth = self.depth + 1
        if inner.depth > _DEEPEST:
            raise UnexpectedError
        return inner

    def mentioned(self, span: Span) -> ast.expr:
        names = dict.fromkeys(
            token.text for token in self.code.tokens[span[0] : span[1]] if token.kind == "name"
        )
        elements: list[ast.expr] = [ast.Name(id=name, ctx=ast.Load()) for name in names]
        return Unfollowed(elements)

    def whole_expression(self) -> ast.expr:
        start = self.at
        try:
            value = self.expression()
        except UnexpectedError:
            return self.mentioned((start, self.end))
        return value if self.at >= self.end else self.mentioned((start, self.end))

    def expression(self) -> ast.expr:
        first = self.assignment()
        if self.text != ",":
            return first
        elements = [first]
        while self.take(","):
            elements.append(self.assignment())
        return ast.Tuple(elts=elements, ctx=ast.Load())

    def assignment(self) -> ast.expr:
        start = self.at
        left = self.conditional()
        operator = self.text
        if operator in _ASSIGNING:
            self.at += 1
            right = self.assignment()
            if operator != "=":
                right = _binary(operator[:-1], left, right)
            left = named(left, right)
        left.lineno = self.code[start].start
        return left

    def conditional(self) -> ast.expr:
        test = self.binary(0)
        if not self.take("?"):
            return test
        body = self.assignment()
        self.expect(":")
        return ast.IfExp(test=test, body=body, orelse=self.assignment())

    def binary(self, least: int) -> ast.expr:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise UnexpectedError
        left = self.unary()
        while True:
            operator = self.text
            if operator in ("as", "satisfies"):
                self.at += 1
                self._skip_cast()
                continue
            level = _BINARY.get(operator, -1)
            if level <= least:
                self.depth -= 1
                return left
            self.at += 1
            left = _binary(operator, left, self.binary(level))

    def _skip_cast(self) -> None:
        """Skip the type after `as`: a name with its parameters, members and brackets."""
        self.at += 1
        while self.text in ("<", "[", ".", "|", "&"):
            if self.text == "<":
                while self.at < self.end and self.text != ">":
                    self.at += 1
                self.at += 1
            elif self.text == "[":
                self.at = self.code.after(self.at)
            else:
                self.at += 2

    def unary(self) -> ast.expr:
        text = self.text
        if text in _UNARY and self.take(text):
            return ast.UnaryOp(op=_UNARY[text](), operand=self.unary())
        if text in ("++", "--") and self.take(text):
            return Increment(self.unary(), 1 if text == "++" else -1, is_prefix=True)
        if self.take("await"):
            return self.unary()
        if text in _UNARY_WORDS and self.take(text):
            is_alone = self.text in _NO_OPERAND or self.starts_line()
            return Unfollowed([] if is_alone else [self.unary()])
        value = self.postfix(self.operand())
        if self.text in ("++", "--") and not self.starts_line():
            step = 1 if self.text == "++" else -1
            self.at += 1
            value = Increment(value, step, is_prefix=False)
        return value

    def postfix(self, value: ast.expr) -> ast.expr:
        while self.at < self.end:
            text, start = self.text, self.at
            if text in (".", "?."):
                self.at += 1
                if self.text in ("(", "["):
                    continue
                value = ast.Attribute(value=value, attr=self._member(), ctx=ast.Load())
            elif text == "[":
                index = self.inner().whole_expression()
                value = ast.Subscript(value=value, slice=index, ctx=ast.Load())
            elif text == "(":
                value = ast.Call(func=value, args=self.inner().arguments(), keywords=[])
            elif text == "!" and not self.starts_line() and self.code[start + 1].text != "=":
                self.at += 1  # TypeScript: surely not null
            elif self.code[start].kind == "template" and not self.starts_line():
                value = ast.Call(func=value, args=[self.operand()], keywords=[])
            else:
                return value
            value.lineno = self.code[start].start
        return value

    def _member(self) -> str:
        token = self.code[self.at]
        if token.kind != "name":
            raise UnexpectedError
        self.at += 1
        return token.text

    def arguments(self) -> list[ast.expr]:
        found: list[ast.expr] = []
        while self.at < self.end:
            if self.take("..."):
                found.append(ast.Starred(value=self.assignment(), ctx=ast.Load()))
            else:
                found.append(self.assignment())
            if self.at < self.end:
                self.expect(",")
        return found

    def operand(self) -> ast.expr:
        if self.at >= self.end:
            raise UnexpectedError
        start = self.at
        value = self._operand()
        value.lineno = self.code[start].start
        return value

    def _operand(self) -> ast.expr:
        token = self.code.tokens[self.at]
        if token.kind in ("string", "number"):
            self.at += 1
            value = read_literal(self.code, (self.at - 1, self.at))
            return ast.Constant(value=None if value is NOT_LITERAL else value)
        if token.kind == "template":
            return self._template()
        if token.kind == "regex":
            self.at += 1
            return RegexLiteral(token.text)
        return self._word() if token.kind == "name" else self._bracket(token.text)

    def _bracket(self, text: str) -> ast.expr:
        if text == "[":
            return self._array()
        if text == "{":
            return self._object()
        if text == "(" and function_at(self.code, self.at) is None:
            return self.inner().whole_expression()
        if text not in ("(", "<"):
            raise UnexpectedError
        return self.function()

    def _word(self) -> ast.expr:
        text = self.text
        if self._begins_function():
            return self.function()
        if text in _WORDS:
            self.at += 1
            return ast.Constant(value=_WORDS[text])
        if text == "new":
            self.at += 1
            return self._construction()
        if text == "class":
            return self._class()
        if text in RESERVED and text != "import":
            raise UnexpectedError
        return self.name()

    def _begins_function(self) -> bool:
        text, following = self.text, self.code[self.at + 1].text
        if text == "function" or following == "=>":
            return True
        is_async = following in ("function", "(") or self.code[self.at + 2].text == "=>"
        return text == "async" and is_async and function_at(self.code, self.at) is not None

    def _class(self) -> ast.expr:
        start = self.at
        while self.at < self.end and self.text != "{":
            self.at = self.code.after(self.at)
        self.at = self.code.after(self.at)
        return self.mentioned((start, self.at))

    def _construction(self) -> ast.expr:
        made = self.operand()
        while self.take("."):
            made = ast.Attribute(value=made, attr=self._member(), ctx=ast.Load())
        if self.text == "<":
            while self.at < self.end and self.text != "(":
                self.at += 1
        arguments = self.inner().arguments() if self.text == "(" else []
        return ast.Call(func=made, args=arguments, keywords=[])

    def name(self) -> ast.Name:
        self.at += 1
        return ast.Name(id=self.code.tokens[self.at - 1].text, ctx=ast.Load())

    def function(self) -> ast.expr:
        found = function_at(self.code, self.at)
        if found is None or found.body[1] > self.end:
            raise UnexpectedError
        start, end = found.body
        is_block = self.code[start - 1].text == "{" and self.code.partners.get(start - 1) == end
        self.at = end + 1 if is_block else end
        return FunctionExpression(type(self), self.code, found.parameters, found.body)

    def _template(self) -> ast.expr:
        parts: list[ast.expr] = []
        while self.at < self.end and self.code[self.at].kind == "template":
            token = self.code[self.at]
            parts.append(ast.Constant(value=text_of(token)))
            self.at += 1
            if self.text != "${":
                break
            inner = self.inner().whole_expression()
            parts.append(ast.FormattedValue(value=inner, conversion=-1, format_spec=None))
        return parts[0] if len(parts) == 1 else ast.JoinedStr(values=parts)

    def _array(self) -> ast.expr:
        inner = self.inner()
        elements: list[ast.expr] = []
        while inner.at < inner.end:
            if inner.text == ",":
                elements.append(ast.Constant(value=None))
            elif inner.take("..."):
                elements.append(ast.Starred(value=inner.assignment(), ctx=ast.Load()))
            else:
                elements.append(inner.assignment())
            if inner.at < inner.end:
                inner.expect(",")
        return ast.List(elts=elements, ctx=ast.Load())

    def _object(self) -> ast.expr:
        inner = self.inner()
        keys: list[ast.expr | None] = []
        values: list[ast.expr] = []
        while inner.at < inner.end:
            key, value = inner.member()
            keys.append(key)
            values.append(value)
            if inner.at < inner.end:
                inner.expect(",")
        return ast.Dict(keys=keys, values=values)

    def member(self) -> tuple[ast.expr | None, ast.expr]:
        """One member of an object; the key of a spread is None, as in Python."""
        if self.take("..."):
            return None, self.assignment()
        while self.text in ("async", "get", "set", "*") and self.code[self.at + 1].text not in (
            ",",
            ":",
            "(",
            "=",
            "",
        ):
            self.at += 1
        token = self.code[self.at]
        if token.text == "[" and token.kind == "punctuation":
            computed = self.inner().whole_expression()
            self.expect(":")
            return None, Unfollowed([computed, self.assignment()])
        if token.kind not in ("name", "string", "number"):
            raise UnexpectedError
        key = ast.Constant(value=text_of(token))
        self.at += 1
        if self.take(":"):
            return key, self.assignment()
        if self.text == "(":
            self.at -= 1
            return key, self.function()
        local = ast.Name(id=token.text, ctx=ast.Load())
        if self.take("="):  # a default in a pattern
            return key, named(local, self.assignment())
        return key, local


class FunctionExpression(ast.expr):
    """A function of JavaScript; its body is read when somebody asks for it."""

    _fields: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        parser: type[ExpressionParser],
        code: Code,
        parameters: tuple[Span, ...],
        body: Span,
    ) -> None:
        super().__init__()
        self._parser, self._code, self._parameters, self._body = parser, code, parameters, body

    @cached_property
    def parameters(self) -> list[ast.expr]:
        return [self._parser(self._code, span).parameter() for span in self._parameters]

    @cached_property
    def body(self) -> list[ast.stmt]:
        start, end = self._body
        is_block = self._code[start - 1].text == "{" and self._code.partners.get(start - 1) == end
        parser = self._parser(self._code, self._body)
        if is_block:
            return parser.statements()
        return [ast.Return(value=parser.whole_expression(), lineno=self._code[start].start)]

    @property
    def size(self) -> int:
        return self._body[1] - self._body[0]

    @cached_property
    def names(self) -> frozenset[str]:
        start = min((span[0] for span in self._parameters), default=self._body[0])
        return frozenset(
            token.text for token in self._code.tokens[start : self._body[1]] if token.kind == "name"
        )


def named(target: ast.expr, value: ast.expr) -> ast.expr:
    """Return an assignment as an expression."""
    # Patterns and members are targets, too, which Python's own trees do not allow.
    return ast.NamedExpr(target=target, value=value)  # type: ignore[arg-type]  # see above


def _binary(operator: str, left: ast.expr, right: ast.expr) -> ast.expr:
    if operator in _LOGIC:
        return ast.BoolOp(op=_LOGIC[operator](), values=[left, right])
    if operator in _COMPARISONS:
        return ast.Compare(left=left, ops=[_COMPARISONS[operator]()], comparators=[right])
    if operator in _ARITHMETIC:
        return ast.BinOp(left=left, op=_ARITHMETIC[operator](), right=right)
    return Unfollowed([left, right])
