"""Parses a shell script into statements; what it does not understand is an error, not a guess.

A parser of its own, because none fits: bashlex is under the GPL, and tree-sitter repairs what it
does not understand, where a reader of arguments must give up.
"""

import re
from collections.abc import Iterator

from skillpouch.signatures.shell.syntax import (
    Arithmetic,
    Assigned,
    Case,
    CaseItem,
    Chain,
    If,
    Loop,
    Pipeline,
    ShellFunction,
    ShellGroup,
    ShellSyntaxError,
    ShellWord,
    Simple,
    Statement,
    Text,
    WordParser,
)

_DEEPEST = 60  # no script nests deeper, and Python's stack ends


_RESERVED = re.compile(r"(?:[a-z]+|[{}!]|\[\[)(?=[\s;&|()<>]|$)")
_FUNCTION = re.compile(
    r"function[ \t]+(?P<long>[^\s()'\"$;&|<>]+)(?:[ \t]*\([ \t]*\))?"
    r"|(?P<name>[\w:.@+-]+)[ \t]*\([ \t]*\)"
)
_ASSIGNED = re.compile(r"(?P<name>[A-Za-z_]\w*)(?:\[(?P<index>[^\]\n]*)\])?(?P<append>\+?)=")
_REDIRECTION = re.compile(r"(?:\d+|\{\w+\})?(?P<kind>&>>?|<<<|<<-?|<>|>>|>\||[<>]&|[<>](?!\())")
_DECLARING = frozenset({"local", "declare", "typeset", "readonly", "export"})
_SEPARATORS = re.compile(r"[;&](?!;|&)")


def parse_shell(text: str) -> tuple[Statement, ...]:
    """Return the statements of a script. Raises ShellSyntaxError."""
    parser = _Parser(text)
    statements = parser.statements(frozenset())
    if parser.at < len(text):
        raise ShellSyntaxError(parser.at)
    return statements


class _Parser(WordParser):
    def nested(self, text: str) -> "_Parser":
        return _Parser(text, self.depth + 1)

    def keyword(self) -> str:
        match = _RESERVED.match(self.text, self.at)
        return match.group() if match else ""

    def expect_keyword(self, *words: str) -> str:
        self.lines()
        word = self.keyword()
        if word not in words:
            raise self.fail()
        self.at += len(word)
        return word

    def statements(self, until: frozenset[str]) -> tuple[Statement, ...]:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self.fail()
        found: list[Statement] = []
        while not self.is_over(until):
            found.append(self.chain())
            self.blank()
            if separator := _SEPARATORS.match(self.text, self.at):
                self.at = separator.end()
            elif (
                self.text[self.at : self.at + 1] not in ("", "\n", ")", ";")
                and self.keyword() not in until
            ):
                raise self.fail()
        self.depth -= 1
        return tuple(found)

    def is_over(self, until: frozenset[str]) -> bool:
        self.lines()
        if self.at >= len(self.text):
            return True
        if self.text.startswith((";;", ";&", ")"), self.at):
            return True
        return self.keyword() in until

    def block(self, *until: str) -> tuple[Statement, ...]:
        found = self.statements(frozenset(until))
        if not found:
            raise self.fail()
        return found

    def chain(self) -> Statement:
        first = self.pipeline()
        rest: list[tuple[str, Statement]] = []
        self.blank()
        while operator := next((each for each in ("&&", "||") if self.take(each)), ""):
            self.lines()
            rest.append((operator, self.pipeline()))
            self.blank()
        return Chain(first, tuple(rest)) if rest else first

    def pipeline(self) -> Statement:
        negated = False
        while (word := self.keyword()) in ("!", "time"):
            self.at += len(word)
            negated ^= word == "!"
            self.blank()
        commands = [self.command()]
        self.blank()
        while self.text.startswith("|", self.at) and not self.text.startswith("||", self.at):
            self.at += 2 if self.text.startswith("|&", self.at) else 1
            self.lines()
            commands.append(self.command())
            self.blank()
        plain = len(commands) == 1 and not negated
        return commands[0] if plain else Pipeline(tuple(commands), negated)

    def command(self) -> Statement:
        start = self.at
        if self.text.startswith("((", start):
            return self.redirected(self.sum_command())
        if self.take("("):
            body = self.statements(frozenset())
            self.expect(")")
            return self.redirected(ShellGroup(body, subshell=True))
        word = self.keyword()
        compound = getattr(self, f"take_{word}", None) if word.isalpha() else None
        if compound and word != "function":
            self.at += len(word)
            return self.redirected(compound(start))
        if word == "{":
            self.at += 1
            body = self.block("}")
            self.expect_keyword("}")
            return self.redirected(ShellGroup(body))
        if function := _FUNCTION.match(self.text, start):
            return self.function(function)
        return self.test() if word == "[[" else self.simple()

    def redirected(self, statement: Statement) -> Statement:
        # One list, no copy: the text of a here-document is known only at the end of the line.
        texts: list[ShellWord] = []
        start = self.at
        self.blank()
        while match := _REDIRECTION.match(self.text, self.at):
            self.redirection(match, texts)
            start = -1
            self.blank()
        return ShellGroup((statement,), texts=texts) if start < 0 else statement

    def function(self, match: re.Match[str]) -> ShellFunction:
        self.at = match.end()
        self.lines()
        body = self.command()
        return ShellFunction(match["long"] or match["name"], (body,), match.start())

    def take_if(self, start: int) -> If:
        clauses = []
        word = "if"
        while word in ("if", "elif"):
            condition = self.block("then")
            self.expect_keyword("then")
            clauses.append((condition, self.block("elif", "else", "fi")))
            word = self.expect_keyword("elif", "else", "fi")
        otherwise: tuple[Statement, ...] = ()
        if word == "else":
            otherwise = self.block("fi")
            self.expect_keyword("fi")
        return If(tuple(clauses), otherwise, start)

    def take_while(self, start: int) -> Loop:
        kind = self.text[start : self.at]
        condition = self.block("do")
        return Loop(kind, condition, "", None, self.do_body(), start)

    take_until = take_while

    def take_for(self, start: int) -> Loop:
        kind = self.text[start : self.at]
        self.blank()
        if self.text.startswith("((", self.at):
            head = self.sum_command()
            self.blank()
            self.take(";")
            return Loop("for ((", (head,), "", None, self.do_body(), start)
        name = re.compile(r"[A-Za-z_]\w*").match(self.text, self.at)
        if not name:
            raise self.fail()
        self.at = name.end()
        self.lines()
        words: list[ShellWord] | None = None
        if self.keyword() == "in":
            self.at += len("in")
            words = list(self.plain_words())
        self.blank()
        self.take(";")
        return Loop(
            kind, (), name.group(), None if words is None else tuple(words), self.do_body(), start
        )

    take_select = take_for

    def do_body(self) -> tuple[Statement, ...]:
        self.expect_keyword("do")
        body = self.block("done")
        self.expect_keyword("done")
        return body

    def plain_words(self) -> Iterator[ShellWord]:
        self.blank()
        while self.at < len(self.text) and self.text[self.at] not in "\n;&|)":
            yield self.word()
            self.blank()

    def take_case(self, start: int) -> Case:
        self.blank()
        subject = self.word()
        self.expect_keyword("in")
        items: list[CaseItem] = []
        self.lines()
        while self.keyword() != "esac":
            items.append(self.case_item())
            self.lines()
        self.expect_keyword("esac")
        return Case(subject, tuple(items), start)

    def case_item(self) -> CaseItem:
        start = self.at
        self.take("(")
        patterns: list[ShellWord] = []
        while True:
            self.blank()
            patterns.append(self.word())
            self.blank()
            if self.take(")"):
                break
            self.expect("|")
        body = self.statements(frozenset({"esac"}))
        self.lines()
        end = next((each for each in (";;&", ";;", ";&") if self.take(each)), "")
        if not end and self.keyword() != "esac":
            raise self.fail()
        return CaseItem(tuple(patterns), body, end or ";;", start)

    def sum_command(self) -> Arithmetic:
        start = self.at
        self.at += 2
        return Arithmetic(self.sum_text(), start)

    def test(self) -> Simple:
        """`[[ … ]]`: its operators are words here."""
        start = self.at
        words = [self.word()]
        is_regex = False
        while True:
            self.lines()
            if self.keyword_test_end():
                break
            operator = next(
                (
                    each
                    for each in ("&&", "||", "(", ")", "<", ">")
                    if self.text.startswith(each, self.at)
                ),
                "",
            )
            if operator and not is_regex:
                self.at += len(operator)
                words.append(ShellWord((Text(operator, quoted=False),)))
                continue
            words.append(self.word(regex=is_regex))
            is_regex = words[-1].literal == "=~"
        return Simple(tuple(words), (), (), start)

    def keyword_test_end(self) -> bool:
        if self.at >= len(self.text):
            raise self.fail()
        return self.take("]]")

    def simple(self) -> Simple:
        start = self.at
        words: list[ShellWord] = []
        assigned: list[Assigned] = []
        texts: list[ShellWord] = []
        while True:
            self.blank()
            if self.at >= len(self.text) or self.text[self.at] in "\n;|)":
                break
            if match := _REDIRECTION.match(self.text, self.at):
                self.redirection(match, texts)
            elif self.text[self.at] == "&":
                break
            elif (match := _ASSIGNED.match(self.text, self.at)) and self.may_assign(words):
                assigned.append(self.assignment(match))
            else:
                words.append(self.word())
        if self.at == start:
            raise self.fail()
        return Simple(tuple(words), tuple(assigned), texts, start)

    def may_assign(self, words: list[ShellWord]) -> bool:
        return not words or words[0].literal in _DECLARING

    def assignment(self, match: re.Match[str]) -> Assigned:
        self.at = match.end()
        items: tuple[ShellWord, ...] | None = None
        value = ShellWord(())
        if self.take("("):
            items = tuple(self.array())
        elif self.at < len(self.text) and self.text[self.at] not in " \t\r\n;&|)<>":
            value = self.word()
        return Assigned(match["name"], value, items, bool(match["append"]), match["index"] or "")

    def array(self) -> Iterator[ShellWord]:
        self.lines()
        while not self.take(")"):
            yield self.word()
            self.lines()

    def redirection(self, match: re.Match[str], texts: list[ShellWord]) -> None:
        self.at = match.end()
        self.blank()
        if match["kind"] in ("<<", "<<-"):
            start = self.at
            delimiter = self.word().literal
            if delimiter is None:
                raise self.fail()
            is_literal = any(each in self.text[start : self.at] for each in "'\"\\")
            self.documents.append((delimiter, is_literal, texts))
        elif not (match["kind"] in (">&", "<&") and self.take("-")):
            texts.append(self.word())
