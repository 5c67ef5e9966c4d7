"""Loops over the words of a command line, in all the ways they are written."""

import ast
from typing import Any

from skillpouch.signatures.hand_written.expressions import target_name
from skillpouch.signatures.hand_written.passes import LoopReader, Pass, WordLoop
from skillpouch.signatures.hand_written.statements import StatementFollower, WayOut
from skillpouch.signatures.hand_written.tracking import Env, LoopState
from skillpouch.signatures.hand_written.values import (
    Known,
    Length,
    LoopIndex,
    Ref,
    Routine,
    UnclearError,
    Word,
    Words,
)
from skillpouch.signatures.javascript.syntax import CountingLoop


class LoopFollower(StatementFollower):
    """Follows a whole program, with its loops over words."""

    def follow(self, loop: WordLoop, node: ast.AST, *, returns: bool = False) -> list[WayOut]:
        """Find out what a loop does with each flag, and with all other words."""
        if self.loop is not None:
            raise UnclearError("it goes over its words in a loop within a loop", node)

        def run(word: Any, flag: str, env: Env) -> Pass:
            return self.one_pass(loop, word, flag, env, returns=returns)

        LoopReader(self, run, loop, node).read()
        return []

    def each_word(self, words: Words, routine: Routine, node: ast.AST) -> None:
        """`args.forEach((arg, i) => …)`."""
        if any(not isinstance(parameter, ast.Name) for parameter in routine.parameters):
            raise UnclearError("it goes over its words in a way that is not followed", node)

        def begin(word: Any) -> None:
            for parameter, value in zip(routine.parameters, (word, LoopIndex()), strict=False):
                self.bind(parameter, value)

        loop = WordLoop(
            words=words,
            start=words.start,
            body=routine.body(),
            begin=begin,
            end=lambda: 1,
            ignored={(self.scope, target_name(each)) for each in routine.parameters},
        )
        self.follow(loop, node, returns=True)

    def _for(self, node: ast.For | ast.AsyncFor) -> list[WayOut]:
        loop = self._enumerated(node) or self._ranged(node)
        if loop is None:
            items = self.value(node.iter)
            if isinstance(items, Ref) and isinstance(self.items(items), Words):
                loop = self._streamed(node, items) if items.kind == "stream" else None
                items = self.items(items)
            if isinstance(items, Words) and loop is None:
                loop = self._listed(node, items)
            if loop is None:
                self.use(items, node)
                return self.other_loop(node.body, node.target)
        return self.follow(loop, node)

    def _listed(self, node: ast.For | ast.AsyncFor, words: Words) -> WordLoop | None:
        if words.base:
            return None
        return WordLoop(
            words=words,
            start=words.start,
            body=node.body,
            begin=lambda word: self.bind(node.target, word),
            end=lambda: 1,
            ignored=self._own(node.target),
            label=target_name(node.target),
        )

    def _own(self, *targets: ast.AST) -> set[Any]:
        return {
            (self.scope, part.id)
            for target in targets
            for part in ast.walk(target)
            if isinstance(part, ast.Name)
        }

    def _streamed(self, node: ast.For | ast.AsyncFor, ref: Ref) -> WordLoop:
        words = self.items(ref)

        def begin(word: Any) -> None:
            self.env[ref, "items"] = Words(1, "loop")
            self.bind(node.target, word)

        return WordLoop(
            words=words,
            start=words.start,
            body=node.body,
            begin=begin,
            end=lambda: self.env[ref, "items"].start,
            ignored={(ref, "items"), *self._own(node.target)},
        )

    def _enumerated(self, node: ast.For | ast.AsyncFor) -> WordLoop | None:
        """`for i, word in enumerate(words)`, `for (const [i, word] of words.entries())`."""
        call = node.iter
        pair = node.target.elts if isinstance(node.target, ast.Tuple | ast.List) else []
        if not isinstance(call, ast.Call) or len(pair) != 2:  # noqa: PLR2004 - index and word
            return None
        first = Known(0)
        if self.program.dotted(call.func) == "enumerate" and call.args:
            words = self.value(call.args[0])
            given = [*call.args[1:], *(each.value for each in call.keywords)]
            first = self.value(given[0]) if given else first
        elif isinstance(call.func, ast.Attribute) and call.func.attr == "entries":
            words = self.value(call.func.value)
        else:
            return None
        if not isinstance(words, Words) or words.base or type(first.value) is not int:
            return None

        def begin(word: Any) -> None:
            self.bind(pair[0], LoopIndex(first.value))
            self.bind(pair[1], word)

        return WordLoop(
            words=words,
            start=words.start,
            body=node.body,
            begin=begin,
            end=lambda: 1,
            ignored=self._own(*pair),
        )

    def _ranged(self, node: ast.For | ast.AsyncFor) -> WordLoop | None:
        """`for i in range(1, len(words))`."""
        call = node.iter
        if not isinstance(call, ast.Call) or self.program.dotted(call.func) != "range":
            return None
        bounds = [self.value(each) for each in call.args]
        first = bounds[0] if len(bounds) > 1 else Known(0)
        last = bounds[min(len(bounds), 2) - 1]
        if len(bounds) > 2 or not isinstance(last, Length) or not isinstance(first, Known):  # noqa: PLR2004 - no step
            return None
        if last.base or type(first.value) is not int:
            return None
        words = Words(-last.plus)
        return WordLoop(
            words=words,
            start=words.start + first.value,
            body=node.body,
            begin=lambda _: self.bind(node.target, LoopIndex()),
            end=lambda: 1,
            ignored=self._own(node.target),
        )

    def _while(self, node: ast.While) -> list[WayOut]:
        test = node.test
        loop = self._counted(test, node.body, [])
        loop = loop or self._shifted(test, node.body)
        if loop is not None:
            return self.follow(loop, node)
        self.decide(test)
        return self.other_loop(node.body)

    def _counting(self, node: CountingLoop) -> list[WayOut]:
        self.block(node.init)
        loop = self._counted(node.test, node.body, node.update)
        if loop is not None:
            return self.follow(loop, node)
        self.decide(node.test)
        return self.other_loop([*node.body, *node.update])

    def _counted(
        self, test: ast.AST, body: list[ast.stmt], update: list[ast.stmt]
    ) -> WordLoop | None:
        """A loop while an index is less than the number of words."""
        if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Lt):
            return None
        index = test.left
        key = self._variable(index)
        first = self.env.get(key) if key is not None else None
        length = self.value(test.comparators[0]) if first is not None else None
        if not isinstance(length, Length) or length.base or not isinstance(first, Known):
            return None
        if type(first.value) is not int:
            return None
        words = Words(-length.plus)

        def begin(_: Any) -> None:
            self.env[key] = LoopIndex()

        def end() -> int:
            self.block(update)
            now = self.env[key]
            if not isinstance(now, LoopIndex):
                raise UnclearError("it computes which of its words it reads", index)
            return now.plus

        return WordLoop(
            words=words,
            start=words.start + first.value,
            body=body,
            begin=begin,
            end=end,
            ignored={key},
        )

    def _shifted(self, test: ast.AST, body: list[ast.stmt]) -> WordLoop | None:
        """A loop that takes words away until there are none."""
        names = [part for part in ast.walk(test) if isinstance(part, ast.Name)]
        lists = [part for part in names if isinstance(self.find(part.id), Words)]
        key = self._variable(lists[0]) if len(lists) == 1 else None
        words = self.env.get(key) if key is not None else None
        if not isinstance(words, Words) or words.base:
            return None
        start = words.start
        self.env[key] = Words(0, "loop")
        outer, self.loop = self.loop, LoopState(words, Word("plain", -1))
        runs = self.decide(test).truth
        self.env[key], self.loop = words, outer
        if runs is not True:
            return None

        def begin(_: Any) -> None:
            self.env[key] = Words(0, "loop")

        return WordLoop(
            words=words,
            start=start,
            body=body,
            begin=begin,
            end=lambda: self.env[key].start,
            ignored={key},
        )

    def one_pass(
        self, loop: WordLoop, word: Any, flag: str, env: Env, *, returns: bool = False
    ) -> Pass:
        """Follow the body of a loop that is at a word."""
        first = self.refs
        effects = self.effects
        self.loop, self.effects = LoopState(loop.words, word, flag), []
        self.resume = (self.scope, self.depth, self.conditional, len(self.active), len(self.facts))
        self.env, self.alive, self.touched = dict(env), True, False
        loop.begin(word)
        self.conditional += 1
        self.loop.conditional = self.conditional
        ended = self.block(loop.body)
        ways = [
            one.env for one in ended if one.kind == "continue" or (returns and one.kind == "return")
        ]
        ways += [self.env] if self.alive else []
        steps: set[int] = set()
        for way in ways:
            self.env, self.alive = way, True
            steps.add(loop.end())
        self.conditional -= 1
        after: Env | None = None
        for way in ways:
            after = way if after is None else self.merged_env(after, way)
        stops = any(one.kind == "break" or (one.kind == "return" and not returns) for one in ended)
        changed = self._changed(env, after or {}, loop.ignored, first)
        made = Pass(word, changed, self.effects, steps, stops, after)
        self.loop, self.effects, self.alive = None, effects, True
        return made

    def _changed(self, before: Env, after: Env, ignored: set[Any], first: int) -> dict[Any, Any]:
        found = {}
        for key, value in after.items():
            owner = key[0].number if isinstance(key[0], Ref) else key[0]
            is_new = owner > first
            if not is_new and key not in ignored and before.get(key, "none") != value:
                found[key] = value
        return found
