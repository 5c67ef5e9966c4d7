"""What a test in a program says about the words of its command line."""

import ast
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from skillpouch.signatures.hand_written.tracking import OPEN, Fact, Tested, Tracker
from skillpouch.signatures.hand_written.values import (
    HELP,
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
    is_flag,
    starts,
)
from skillpouch.signatures.javascript.expressions import Coalesce

_SMALL = 360  # tokens of a function that says how a program is used
_SAYING = frozenset(
    [
        "print",
        "sys.stderr.write",
        "sys.stdout.write",
        "process.stderr.write",
        "process.stdout.write",
    ]
)
_FORMATTING = frozenset({"format", "join", "basename", "strip", "Path", "repr", "str", "repeat"})
# What a JavaScript program knows when it is started itself, and what it calls its own file.
_RUN_DIRECTLY = {"import.meta.main": True, "module.parent": False}
_OWN_FILE = frozenset({"import.meta.url", "import.meta.filename", "__filename"})


class Decisions(Tracker):
    """Follows tests."""

    def decided(self, node: ast.AST) -> Tested:
        """Decide a test; what depends on the word that a loop is at must be known."""
        outer, self.touched = self.touched, False
        decision = self.decide(node)
        if self.touched and decision.truth is None:
            raise UnclearError("what it does with a word depends on a test not followed", node)
        self.touched = outer
        return decision

    def decide(self, node: ast.AST) -> Tested:
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self.decide(node.operand).negated()
        if isinstance(node, ast.BoolOp) and not isinstance(node.op, Coalesce):
            return self._decide_all(node.values, is_and=isinstance(node.op, ast.And))
        if isinstance(node, ast.Call) and self.program.dotted(node.func) in ("Boolean", "bool"):
            return self.decide(node.args[0]) if len(node.args) == 1 else OPEN
        if (is_main := self._is_run_directly(node)) is not None:
            return Tested(is_main)
        return self.truth(self.value(node), node)

    def _decide_all(self, nodes: list[ast.expr], *, is_and: bool) -> Tested:
        """Decide `a and b`; `a or b` is the same with everything negated."""
        known, conditional = len(self.facts), self.conditional
        open_ones: list[Tested] = []
        alike: list[tuple[Fact, ...]] = []
        try:
            for node in nodes:
                decision = self.decide(node)
                alike.append(decision.yes)
                decision = decision if is_and else decision.negated()
                if decision.truth is False:
                    return Tested(not is_and)
                if decision.truth is None:
                    open_ones.append(decision)
                    self.conditional += 1
                    self.facts += decision.yes
        finally:
            self.conditional = conditional
            del self.facts[known:]
        if not open_ones:
            return Tested(is_and)
        if not is_and:
            self.note_alike(alike)
        no = open_ones[0].no if len(open_ones) == 1 else ()
        made = Tested(None, tuple(fact for one in open_ones for fact in one.yes), no)
        return made if is_and else made.negated()

    def note_alike(self, facts: Iterable[tuple[Fact, ...]]) -> None:
        """Note flags of which any does: `"-q" in argv or "--quiet" in argv`."""
        found = [each[0][1] for each in facts if len(each) == 1 and each[0][0] == "flag"]
        if len(found) == len(list(facts)):
            self.reading.alike.append(tuple(found))

    def truth(self, value: Any, node: ast.AST) -> Tested:
        """Tell whether a value counts as true."""
        if isinstance(value, Tested):
            return value
        if isinstance(value, Known):
            return OPEN if value is UNKNOWN else Tested(bool(value.value))
        if isinstance(value, Word):
            self.refuse_after(value, node)
            return self._word_truth(value)
        if isinstance(value, Maybe | Given):
            return self._given_truth(value)
        if isinstance(value, Ref) and value.kind == "list":
            value = self.items(value)
        return self._count_truth(value) if isinstance(value, Words | Length) else self._other(value)

    def _given_truth(self, value: Maybe | Given) -> Tested:
        """Tell whether a flag was given, or a word without a default."""
        if isinstance(value, Given):
            single = len(value.flags) == 1
            absent = tuple(("no flag", flag) for flag in value.flags)
            return Tested(None, (("flag", value.flags[0]),) if single else (), absent)
        is_empty = isinstance(value.default, Known) and not value.default.value
        if not is_empty or value.default is UNKNOWN:
            return OPEN
        if isinstance(value.value, Given):
            return self._given_truth(value.value)
        is_word = isinstance(value.value, Word)
        return Tested(None, (("given", value.value, ""),) if is_word else (), ())

    def _other(self, value: Any) -> Tested:
        if type(value) is tuple and self.program.is_python:
            return Tested(bool(value)) if UNKNOWN not in value else OPEN
        return OPEN if isinstance(value, Place | LoopIndex) else Tested(True)

    def _word_truth(self, word: Word) -> Tested:
        if self.loop is not None and (word.kind in ("value", "tail") or self._was_before(word)):
            self.refuse(word, "")
            return Tested(True)
        return Tested(None, (("given", word, ""),), ())

    def _was_before(self, word: Word) -> bool:
        """Tell whether a loop over words has come to this one."""
        current = self.loop.current if self.loop else None
        if not isinstance(current, Word) or current.kind != "plain":
            return False
        return word.kind == "plain" and word.number <= current.number

    def _count_truth(self, value: Words | Length) -> Tested:
        if isinstance(value, Words):
            if not self.program.is_python:
                return Tested(True)
            value = Length(-value.start, value.base)
        return self.compare_length(value, ast.Gt(), 0)

    def _is_run_directly(self, node: ast.AST) -> bool | None:
        """Tell how JavaScript answers whether it was started itself; None for other tests.

        A tool is always started itself: nothing imports it.
        """
        if self.program.is_python:
            return None
        if isinstance(node, ast.Attribute):
            return _RUN_DIRECTLY.get(self.program.dotted(node))
        if isinstance(node, ast.Subscript):
            return True if _is_own_path(node, self.program.dotted(node.value)) else None
        if not isinstance(node, ast.Compare | ast.Call):
            return None
        names = {self.program.dotted(part) for part in ast.walk(node)}
        by_path = any(
            isinstance(part, ast.Subscript) and _is_own_path(part, self.program.dotted(part.value))
            for part in ast.walk(node)
        )
        if not names >= {"require.main", "module"} and not (by_path and names & _OWN_FILE):
            return None
        return not (isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.NotEq))

    def _compare(self, node: ast.Compare, _: str) -> Any:
        if (is_main := self._is_run_directly(node)) is not None:
            return Tested(is_main)
        return self._compared(node)

    def _compared(self, node: ast.Compare) -> Any:
        if len(node.ops) != 1:
            for part in (node.left, *node.comparators):
                self.use(self.value(part), node)
            return OPEN
        operator, right_node = node.ops[0], node.comparators[0]
        right = self.value(right_node)
        if _is_help(right, self):
            self.peeking = True
        left = self.value(node.left)
        self.peeking = False
        if isinstance(operator, ast.In) and isinstance(right, Words):
            self.contains(right, left, node)
            return Given((left.value,))
        if isinstance(operator, ast.In | ast.NotIn):
            decision = self.contains(right, left, node)
            return decision if isinstance(operator, ast.In) else decision.negated()
        if isinstance(operator, ast.Eq | ast.Is):
            return self.equal(left, right, node)
        if isinstance(operator, ast.NotEq | ast.IsNot):
            return self.equal(left, right, node).negated()
        return self.ordered(left, operator, right, node)

    def contains(self, container: Any, item: Any, node: ast.AST) -> Tested:
        """Decide `item in container`."""
        if isinstance(container, Ref):
            container = self.keys(container)
        if isinstance(container, Words):
            if not isinstance(item, Known) or not isinstance(item.value, str) or container.base:
                raise UnclearError("it looks for a word that is not known", node)
            self.flag(item.value, node)
            return self.truth(Given((item.value,)), node)
        if isinstance(container, Known) and isinstance(container.value, str):
            return _text_in(item, container)
        item = item.value if isinstance(item, Maybe) else item
        if isinstance(item, Joined) and type(container) is tuple:
            return Tested(False)  # flags as they are declared have no value
        if type(container) is not tuple or UNKNOWN in container:
            self.use(item, node)
            return OPEN
        if isinstance(item, Known) and item is not UNKNOWN:
            return Tested(item in container)
        return self._word_in(item, container, node)

    def _word_in(self, item: Any, container: tuple[Any, ...], node: ast.AST) -> Tested:
        texts = [each.value for each in container if isinstance(each, Known)]
        if not isinstance(item, Word) or not all(isinstance(text, str) for text in texts):
            return OPEN
        decisions = [self.word_is(item, text, node) for text in texts]
        if decisions and all(decision.truth is False for decision in decisions):
            return Tested(False)
        return Tested(None, (("in", item, tuple(texts)),), ())

    def equal(self, left: Any, right: Any, node: ast.AST) -> Tested:
        if isinstance(left, Known) and not isinstance(right, Known):
            left, right = right, left
        if isinstance(left, Known) and isinstance(right, Known):
            both = UNKNOWN not in (left, right)
            return Tested(left.value == right.value) if both else OPEN
        if isinstance(left, Tested) and isinstance(right, Known):
            return left if right.value is True else left.negated() if right.value is False else OPEN
        if not isinstance(right, Known):
            self.use(left, node)
            self.use(right, node)
            return OPEN
        return self._equal_known(left, right.value, node)

    def _equal_known(self, left: Any, known: Any, node: ast.AST) -> Tested:
        if isinstance(left, Maybe) and left.default == "first":
            return self.word_starts(left.value, [known or None])
        if known is None:
            return self._is_none(left, node)
        if isinstance(left, Place):
            given = self.truth(Given((left.flag,)), node)
            return given.negated() if left.plus == 0 and known == -1 else OPEN
        if isinstance(left, Length):
            return self.compare_length(left, ast.Eq(), known) if type(known) is int else OPEN
        if isinstance(left, Joined):
            self.touch(left)
            return Tested(False) if is_flag(known) else OPEN
        word = left.value if isinstance(left, Maybe) else left
        is_word = isinstance(word, Word) and isinstance(known, str)
        return self.word_is(word, known, node) if is_word else OPEN

    def _is_none(self, left: Any, node: ast.AST) -> Tested:
        if not isinstance(left, Word | Maybe):
            return OPEN
        decision = self.truth(left, node)
        # An empty word is a word.
        facts = tuple(fact[:2] if fact[0] == "given" else fact for fact in decision.yes)
        return decision._replace(yes=facts).negated()

    def word_is(self, word: Word, text: str, node: ast.AST) -> Tested:
        """Decide whether a word that the caller gives is this text."""
        self.refuse_after(word, node)
        if self.is_current(word):
            if not text.startswith("-"):
                raise UnclearError(f"the word {text!r} has a meaning of its own", node)
            self.refuse(word, re.escape(text))
            return Tested(False)
        if word.kind in ("value", "tail"):
            return Tested(None, (("is", word, text),), ())
        if text in HELP:
            self.reading.special[text] = None
            return Tested(False)
        self.reading.of(word).compared[text] = None
        return Tested(None, (("is", word, text),), (("isnt", word, text),))

    def word_starts(self, word: Word, prefixes: Iterable[Any]) -> Tested:
        """Decide whether a word starts so: the caller's words must not look like flags."""
        texts = list(prefixes)
        if not texts or not all(isinstance(text, str) and text.startswith("-") for text in texts):
            self.touch(word)
            return OPEN
        for text in texts:
            self.refuse(word, starts(text))
        return Tested(False)

    def ordered(self, left: Any, operator: ast.cmpop, right: Any, node: ast.AST) -> Tested:
        """Decide `<`, `<=`, `>` and `>=`."""
        if isinstance(left, Known) and not isinstance(right, Known):
            mirror = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}
            left, right, operator = right, left, mirror.get(type(operator), ast.Lt)()
        if isinstance(left, LoopIndex) and isinstance(right, Length):
            return self._index_exists(left, operator, right)
        if isinstance(left, Length) and isinstance(right, LoopIndex):
            mirror = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}
            return self._index_exists(right, mirror[type(operator)](), left)
        number = right.value if isinstance(right, Known) else None
        if isinstance(left, Length) and type(number) is int:
            return self.compare_length(left, operator, number)
        if isinstance(left, Place) and left.plus == 0:
            return self._place_given(left, operator, number)
        if isinstance(left, Place) and isinstance(right, Length):
            return OPEN
        self.use(left, node)
        self.use(right, node)
        return OPEN

    def _place_given(self, place: Place, operator: ast.cmpop, number: Any) -> Tested:
        given = self.truth(Given((place.flag,)), ast.Pass())
        if (isinstance(operator, ast.GtE) and number == 0) or (
            isinstance(operator, ast.Gt) and number == -1
        ):
            return given
        return given.negated() if isinstance(operator, ast.Lt) and number == 0 else OPEN

    def _index_exists(self, index: LoopIndex, operator: ast.cmpop, length: Length) -> Tested:
        """Decide `i + 1 < len(words)` in a loop that is at a word."""
        if self.loop is None or length.base:
            return OPEN
        after = index.plus - self.loop.words.start - length.plus
        negated = isinstance(operator, ast.GtE | ast.Gt)
        after -= isinstance(operator, ast.LtE | ast.Gt)
        most = 1 if self.loop.flag else 0
        return Tested(not negated) if after <= most else OPEN

    def compare_length(self, length: Length, operator: ast.cmpop, number: int) -> Tested:
        """Decide `len(words) < 2`: the facts are how many words there are at least."""
        bound = number - length.plus  # compared with the number of words itself
        least = _AT_LEAST.get(type(operator))
        if least is None:
            return OPEN
        yes, no = least(bound)
        if length.base == "loop" and self.loop is not None:
            sure = 2 if self.loop.flag else 1
            if no is not None and no <= sure:
                return Tested(False)
            return Tested(True) if yes is not None and yes <= sure else OPEN
        return Tested(
            None,
            (("count", length.base, yes),) if yes else (),
            (("count", length.base, no),) if no else (),
        )

    # Refusals

    def learn(self, facts: Sequence[Fact]) -> None:
        """Note what must hold, for otherwise the program refuses to work."""
        in_loop = self.loop is not None and self.conditional == self.loop.conditional
        if self.conditional and not in_loop:
            return
        for fact in facts:
            if fact[0] == "in":
                self.reading.of(fact[1]).choices = fact[2]
            elif not in_loop:
                self._require(fact)

    def _require(self, fact: Fact) -> None:
        if fact[0] == "count":
            fewest = self.reading.fewest
            fewest[fact[1]] = max(fewest.get(fact[1], 0), fact[2])
        elif fact[0] == "given":
            about = self.reading.of(fact[1])
            about.required = True
            about.refuses |= dict.fromkeys(fact[2:])
        elif fact[0] == "flag" and fact[1] in self.reading.flags:
            self.reading.flags[fact[1]].required = True
        elif fact[0] == "is" and fact[1].kind == "at":
            self.reading.fixed[fact[1].number] = fact[2]

    def refuses(self, body: Sequence[ast.stmt]) -> bool:
        """Tell whether a branch only says what is wrong, and ends the program."""
        if not body:
            return False
        last = body[-1]
        if isinstance(last, ast.Raise):
            return True
        if isinstance(last, ast.Return):
            at_top = self.depth <= 1
            return at_top and (_is_call(last.value) or all(map(self._only_says, body[:-1])))
        if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
            code = last.value.args[0] if last.value.args else None
            fails = isinstance(code, ast.Constant) and code.value not in (0, None)
            return fails or all(map(self._only_says, body))
        return isinstance(last, ast.If | ast.Try) and all(map(self._only_says, body))

    def _only_says(self, node: ast.stmt) -> bool:
        if isinstance(node, ast.If):
            return all(map(self._only_says, [*node.body, *node.orelse]))
        if isinstance(node, ast.Return | ast.Raise | ast.Pass):
            return True
        if isinstance(node, ast.Assign | ast.AugAssign):
            # `process.exitCode = 1`, `message = "…"`
            return not any(isinstance(part, ast.Call) for part in ast.walk(node.value))
        if not isinstance(node, ast.Expr):
            return False
        return not isinstance(node.value, ast.Call) or self._says(node.value)

    def _says(self, call: ast.Call) -> bool:
        dotted = self.program.dotted(call.func)
        if dotted in _SAYING or dotted in self.program.exits or dotted.startswith("console."):
            return not any(map(_computes, call.args))
        routine = self.find(dotted)
        return (
            isinstance(routine, Routine)
            and routine.size <= _SMALL
            and all(map(self._only_says, routine.body()))
        )


def _text_in(item: Any, container: Known) -> Tested:
    if not isinstance(item, Known) or not isinstance(item.value, str):
        return OPEN
    return Tested(item.value in container.value)


def _is_help(value: Any, follower: Tracker) -> bool:
    """Tell whether a value is a word that asks for help, or a list of such words."""
    if isinstance(value, Ref) and value.kind == "list":
        value = follower.items(value)
    values = value if type(value) is tuple else (value,)
    return bool(values) and all(
        isinstance(each, Known) and isinstance(each.value, str) and each.value in HELP
        for each in values
    )


# For each comparison with a bound: the least number if it holds, and if it fails.
_AT_LEAST: dict[type[ast.cmpop], Callable[[int], tuple[int | None, int | None]]] = {
    ast.Gt: lambda bound: (bound + 1, None),
    ast.GtE: lambda bound: (bound, None),
    ast.Lt: lambda bound: (None, bound),
    ast.LtE: lambda bound: (None, bound + 1),
    ast.Eq: lambda bound: (bound, 1 if bound == 0 else None),
    ast.NotEq: lambda bound: (1 if bound == 0 else None, bound),
}


def _computes(node: ast.AST) -> bool:
    """Tell whether what is said is more than a text about the program."""
    called = [part.func for part in ast.walk(node) if isinstance(part, ast.Call)]
    names = [
        one.attr if isinstance(one, ast.Attribute) else getattr(one, "id", "") for one in called
    ]
    return not _FORMATTING.issuperset(names)


def _is_call(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Call)


def _is_own_path(node: ast.Subscript, owner: str) -> bool:
    """`process.argv[1]`."""
    is_second = isinstance(node.slice, ast.Constant) and node.slice.value == 1
    return is_second and owner in ("process.argv", "Bun.argv")
