"""Statements of a JavaScript program as Python's syntax tree."""

import ast
from itertools import pairwise
from typing import ClassVar

from skillpouch.signatures.javascript.expressions import (
    RESERVED,
    ExpressionParser,
    UnexpectedError,
    Unfollowed,
    named,
)
from skillpouch.signatures.javascript.tokens import Code
from skillpouch.signatures.javascript.values import text_of

_DECLARING = frozenset({"const", "let", "var"})
_TYPES_ONLY = frozenset({"interface", "type", "declare", "namespace", "abstract", "enum"})
_LONGEST_TYPE = 200  # tokens of a type annotation


class CountingLoop(ast.stmt):
    """`for (init; test; update) body`."""

    _fields: ClassVar[tuple[str, ...]] = ("init", "test", "update", "body")

    def __init__(
        self,
        init: list[ast.stmt],
        test: ast.expr,
        update: list[ast.stmt],
        body: list[ast.stmt],
    ) -> None:
        super().__init__()
        self.init, self.test, self.update, self.body = init, test, update, body


class Switch(ast.stmt):
    """A switch; each case has the values it is for (None stands for `default`) and statements."""

    _fields: ClassVar[tuple[str, ...]] = ("subject", "values", "statements")

    def __init__(
        self, subject: ast.expr, cases: list[tuple[ast.expr | None, list[ast.stmt]]]
    ) -> None:
        super().__init__()
        self.subject, self.cases = subject, cases
        self.values = [value for value, _ in cases if value is not None]
        self.statements = [statement for _, body in cases for statement in body]


def read_program(code: Code) -> list[ast.stmt]:
    """Return the statements of the top level; never fails, whatever the tokens."""
    return StatementParser(code, (0, len(code))).statements()


class StatementParser(ExpressionParser):
    """Reads the statements of a span of tokens."""

    def statements(self) -> list[ast.stmt]:
        """All statements up to the end, functions first, as they are known from the beginning."""
        functions: list[ast.stmt] = []
        found: list[ast.stmt] = []
        while self.at < self.end:
            start = self.at
            try:
                is_function = self.text in ("function", "async", "export") and self._is_function()
                made = self.statement()
            except UnexpectedError:
                self.at = start
                made, is_function = [self._unknown_statement()], False
            if self.at == start:
                self.at += 1
            for statement in made:
                statement.lineno = self.code[start].start
            (functions if is_function else found).extend(made)
        return functions + found

    def _is_function(self) -> bool:
        words = self.code.texts(self.at, 4)
        while words and words[0] in ("export", "default", "async"):
            words = words[1:]
        return bool(words) and words[0] == "function"

    def _unknown_statement(self) -> ast.stmt:
        start = self.at
        while self.at < self.end and not self.take(";"):
            self.at = min(self.code.after(self.at), self.end)
            if self.at < self.end and self.starts_line() and self.text in RESERVED:
                break
        return ast.Expr(value=self.mentioned((start, self.at)))

    def statement(self) -> list[ast.stmt]:
        text = self.text
        if text in (";", "{"):
            return [] if self.take(";") else self.inner().statements()
        if text in _DECLARING and self.take(text):
            return self.declarations()
        if text in _TYPES_ONLY and self.code[self.at + 1].kind == "name":
            return self._types_only()
        method = getattr(self, f"_{text}_statement", None) if text.isalpha() else None
        if method is not None:
            made: list[ast.stmt] = method()
            return made
        if self.code[self.at].kind == "name" and self.code[self.at + 1].text == ":":
            self.at += 2  # a label
            return self.statement()
        value = self.expression()
        self._ended()
        return [ast.Expr(value=value)]

    def _ended(self) -> None:
        if not self.take(";") and self.at < self.end and not self.starts_line():
            raise UnexpectedError

    def block(self) -> list[ast.stmt]:
        return self.inner().statements() if self.text == "{" else self._single()

    def _single(self) -> list[ast.stmt]:
        start = self.at
        made = self.statement()
        for statement in made:
            statement.lineno = self.code[start].start
        return made

    def declarations(self, *, in_head: bool = False) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        while True:
            target = self.pattern()
            value: ast.expr = ast.Constant(value=None)
            if self.take("="):
                value = self.assignment()
            made.append(ast.Assign(targets=[target], value=value))
            if not self.take(","):
                break
        if not in_head:
            self._ended()
        return made

    def pattern(self) -> ast.expr:
        """A name, `[a, b]` or `{ a, b: c }`, with a type after it that is skipped."""
        if self.text in ("[", "{"):
            target = self.operand()
        elif self.code[self.at].kind == "name":
            target = self.name()
        else:
            raise UnexpectedError
        self.take("?", "!")
        if self.take(":"):
            self.skip_type()
        return target

    def skip_type(self) -> None:
        angles = 0
        for _ in range(_LONGEST_TYPE):
            text = self.text
            if self.at >= self.end or (not angles and text in ("=", ",", ")", ";", "of", "in")):
                return
            if not angles and self.starts_line() and text in RESERVED | {"}"}:
                return
            angles += (text == "<") - (text == ">")
            self.at = self.code.after(self.at)

    def parameter(self) -> ast.expr:
        """One parameter: a pattern, `a = 1` as a named expression, or `...rest`."""
        try:
            while self.text in ("public", "private", "readonly", "protected"):
                self.at += 1
            if self.take("..."):
                return ast.Starred(value=self.pattern(), ctx=ast.Load())
            target = self.pattern()
            if self.take("="):
                return named(target, self.assignment())
        except UnexpectedError:
            return self.mentioned((self.at, self.end))
        return target

    def _types_only(self) -> list[ast.stmt]:
        self.at += 2
        while self.at < self.end and not self.take(";"):
            was_brace = self.text == "{"
            self.at = min(self.code.after(self.at), self.end)
            if self.starts_line() and (was_brace or self.text in RESERVED | {"function"}):
                break
        return []

    def _function_statement(self) -> list[ast.stmt]:
        name = self.at + 1 + (self.code[self.at + 1].text == "*")
        target = ast.Name(id=self.code[name].text, ctx=ast.Store())
        return [ast.Assign(targets=[target], value=self.function())]

    def _async_statement(self) -> list[ast.stmt]:
        if self.code[self.at + 1].text == "function":
            self.at += 1
            return self._function_statement()
        value = self.expression()
        self._ended()
        return [ast.Expr(value=value)]

    def _export_statement(self) -> list[ast.stmt]:
        self.at += 1
        if self.take("default"):
            if self.text in ("function", "async") and self._has_function_name():
                return self.statement()
            return [ast.Expr(value=self.expression())]
        if self.text in ("{", "*"):
            self.at = self.code.after(self.at)
            if self.take("from"):
                self.at += 1
            return []
        return self.statement()

    def _has_function_name(self) -> bool:
        words = self.code.tokens[self.at : self.at + 3]
        return any(
            first.text == "function" and second.kind == "name" for first, second in pairwise(words)
        )

    def _import_statement(self) -> list[ast.stmt]:
        if self.code[self.at + 1].text in ("(", "."):
            raise UnexpectedError
        start = self.at
        while self.at < self.end and self.code[self.at].kind != "string":
            self.at = self.code.after(self.at)
        module = text_of(self.code[self.at])
        self.at += 1
        self.take(";")
        if module not in ("process", "node:process"):
            return []
        return self._process_imports(start, self.at)

    def _process_imports(self, start: int, end: int) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for at in range(start, end):
            if self.code[at].text == "argv" and self.code[at].kind == "name":
                local = self.code[at + 2] if self.code[at + 1].text == "as" else self.code[at]
                process = ast.Name(id="process", ctx=ast.Load())
                value = ast.Attribute(value=process, attr="argv", ctx=ast.Load())
                target = ast.Name(id=local.text, ctx=ast.Store())
                made.append(ast.Assign(targets=[target], value=value))
        return made

    def _if_statement(self) -> list[ast.stmt]:
        self.at += 1
        test = self.condition()
        body = self.block()
        orelse = self.block() if self.take("else") else []
        return [ast.If(test=test, body=body or [ast.Pass()], orelse=orelse)]

    def condition(self) -> ast.expr:
        if self.text != "(":
            raise UnexpectedError
        return self.inner().whole_expression()

    def _while_statement(self) -> list[ast.stmt]:
        self.at += 1
        test = self.condition()
        return [ast.While(test=test, body=self.block(), orelse=[])]

    def _do_statement(self) -> list[ast.stmt]:
        self.at += 1
        body = self.block()
        self.expect("while")
        test = self.condition()
        self.take(";")
        return [ast.While(test=Unfollowed([test]), body=body, orelse=[])]

    def _for_statement(self) -> list[ast.stmt]:
        self.at += 1
        self.take("await")
        if self.text != "(":
            raise UnexpectedError
        head = self.inner()
        parts = self.code.split((head.at, head.end), ";")
        if self.code.tokens[head.at].text == ";" or len(parts) > 1:
            return [self._counting(head)]
        target = head.loop_target()
        is_of = head.text == "of"
        head.at += 1
        items = head.whole_expression()
        if not is_of:
            items = Unfollowed([items])
        return [ast.For(target=target, iter=items, body=self.block(), orelse=[])]

    def loop_target(self) -> ast.expr:
        self.take(*_DECLARING)
        target = self.pattern()
        if self.text not in ("of", "in"):
            raise UnexpectedError
        return target

    def _counting(self, head: "StatementParser") -> ast.stmt:
        init: list[ast.stmt] = []
        if head.text != ";":
            if head.take(*_DECLARING):
                init = head.declarations(in_head=True)
            else:
                init = [ast.Expr(value=head.expression())]
        head.expect(";")
        test = ast.Constant(value=True) if head.text == ";" else head.expression()
        head.expect(";")
        update: list[ast.stmt] = []
        if head.at < head.end:
            update = [ast.Expr(value=head.whole_expression())]
        return CountingLoop(init, test, update, self.block())

    def _switch_statement(self) -> list[ast.stmt]:
        self.at += 1
        subject = self.condition()
        if self.text != "{":
            raise UnexpectedError
        inner = self.inner()
        cases: list[tuple[ast.expr | None, list[ast.stmt]]] = []
        while inner.at < inner.end:
            value = None
            if not inner.take("default"):
                inner.expect("case")
                value = inner.expression()
            inner.expect(":")
            end = inner.case_end()
            body = StatementParser(self.code, (inner.at, end))
            body.depth = inner.depth
            inner.at = end
            cases.append((value, body.statements()))
        return [Switch(subject, cases)]

    def case_end(self) -> int:
        at = self.at
        while at < self.end:
            token = self.code.tokens[at]
            is_case = token.kind == "name" and token.text in ("case", "default")
            if is_case and self.code[at - 1].text != ".":
                return at
            at = self.code.after(at)
        return self.end

    def _return_statement(self) -> list[ast.stmt]:
        self.at += 1
        value = None
        if not self.starts_line() and self.text not in (";", "}"):
            value = self.expression()
        self._ended()
        return [ast.Return(value=value)]

    def _throw_statement(self) -> list[ast.stmt]:
        self.at += 1
        value = self.expression()
        self._ended()
        return [ast.Raise(exc=value, cause=None)]

    def _break_statement(self) -> list[ast.stmt]:
        return [self._jump(ast.Break())]

    def _continue_statement(self) -> list[ast.stmt]:
        return [self._jump(ast.Continue())]

    def _jump(self, node: ast.stmt) -> ast.stmt:
        self.at += 1
        if self.at < self.end and not self.starts_line() and self.code[self.at].kind == "name":
            raise UnexpectedError  # to a label
        self._ended()
        return node

    def _try_statement(self) -> list[ast.stmt]:
        self.at += 1
        body = self.block()
        handlers: list[ast.ExceptHandler] = []
        final: list[ast.stmt] = []
        if self.take("catch"):
            if self.text == "(":
                self.inner()
            handlers = [ast.ExceptHandler(type=None, name=None, body=self.block())]
        if self.take("finally"):
            final = self.block()
        return [ast.Try(body=body, handlers=handlers, orelse=[], finalbody=final)]
