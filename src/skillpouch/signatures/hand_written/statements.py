"""Follows the statements of a program that reads its command line by hand."""

import ast
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

from skillpouch.signatures.hand_written.calls import Calls
from skillpouch.signatures.hand_written.expressions import target_name
from skillpouch.signatures.hand_written.tracking import Env, Fact, HandWrittenProgram, Tested
from skillpouch.signatures.hand_written.values import (
    UNKNOWN,
    Joined,
    Known,
    Length,
    LoopIndex,
    Maybe,
    Place,
    Reading,
    Ref,
    Routine,
    UnclearError,
    Words,
)
from skillpouch.signatures.javascript.expressions import Increment
from skillpouch.signatures.javascript.syntax import CountingLoop, Switch

_DEEPEST = 15
_SMALL = 120  # tokens: functions that only say something and leave are followed, too
_STATEMENTS: dict[type, str] = {
    ast.Expr: "_expression",
    ast.Assign: "_assign",
    ast.AnnAssign: "_annotated",
    ast.AugAssign: "_augmented",
    ast.If: "_if",
    Switch: "_switch",
    ast.Match: "_match",
    ast.Try: "_try",
    ast.With: "_with",
    ast.AsyncWith: "_with",
    ast.For: "_for",
    ast.AsyncFor: "_for",
    ast.While: "_while",
    CountingLoop: "_counting",
    ast.Return: "_return",
    ast.Raise: "_raise",
    ast.Break: "_break",
    ast.Continue: "_continue",
    ast.FunctionDef: "_definition",
    ast.AsyncFunctionDef: "_definition",
    ast.ClassDef: "_class",
    ast.Import: "_nothing",
    ast.ImportFrom: "_nothing",
    ast.Global: "_nothing",
    ast.Nonlocal: "_nothing",
    ast.Pass: "_nothing",
    ast.Delete: "_delete",
}


class WayOut(NamedTuple):
    """A way through some statements that does not come to their end."""

    kind: str  # "return", "break", "continue"
    env: Env
    value: Any = Known(None)


class StatementFollower(Calls):
    """Follows statements; `self.alive` is false where no way leads on."""

    VALUES: ClassVar[dict[type, str]] = {
        **Calls.VALUES,
        ast.NamedExpr: "_named",
        Increment: "_increment",
    }

    def __init__(self, program: HandWrittenProgram) -> None:
        super().__init__(program)
        self.alive = True
        self.active: list[Routine] = []
        self.resume = (0, 0, 0, 0, 0)

    def run(self) -> Reading:
        self.block(self.program.body)
        return self.reading

    def block(self, body: Sequence[ast.stmt]) -> list[WayOut]:
        ended: list[WayOut] = []
        known = len(self.facts)
        for node in body:
            if not self.alive:
                break
            ended += self.statement(node)
        del self.facts[known:]
        return ended

    def statement(self, node: ast.stmt) -> list[WayOut]:
        method = _STATEMENTS.get(type(node))
        if method is None:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    self.use(self.value(child), child)
            ended = []
        else:
            ended = getattr(self, method)(node)
        if self.left:
            self.left, self.alive = False, False
        return ended

    def _expression(self, node: ast.Expr) -> list[WayOut]:
        value = self.value(node.value)
        is_assignment = isinstance(node.value, ast.NamedExpr | ast.BoolOp | ast.IfExp)
        if not is_assignment and not isinstance(value, Words | Joined):
            self.use(value, node)
        return []

    def _assign(self, node: ast.Assign) -> list[WayOut]:
        hint = target_name(node.targets[0])
        value = self.value(node.value, hint)
        for target in node.targets:
            self.bind(target, value, node.value)
        return []

    def _annotated(self, node: ast.AnnAssign) -> list[WayOut]:
        if node.value is not None:
            value = self.value(node.value, target_name(node.target))
            self.bind(node.target, value, node.value)
        return []

    def _augmented(self, node: ast.AugAssign) -> list[WayOut]:
        target = node.target
        if isinstance(target, ast.Name):
            sum_of = ast.BinOp(left=target, op=node.op, right=node.value)
            self.bind(target, self.value(sum_of), node)
            return []
        self.use(self.value(node.value), node)
        return []

    def bind(
        self, target: ast.AST, value: Any, node: ast.AST | None = None, *, anywhere: bool = False
    ) -> None:
        """Give a value to a name, a member, or the names of a pattern."""
        if isinstance(target, ast.Name):
            if isinstance(value, Words):
                self.reading.lists.setdefault((value.base, value.start), target.id)
            if self.program.origins.get(target.id, "") in self.program.argv:
                raise UnclearError("it changes its words", node)
            self.name(value, target.id)
            self.store(target.id, value, anywhere=anywhere)
        elif isinstance(target, ast.Attribute | ast.Subscript):
            self._bind_member(target, value, node)
        elif isinstance(target, ast.List | ast.Tuple):
            self._bind_list(target.elts, value, node or target)
        elif isinstance(target, ast.Dict):
            self._bind_object(target, value, node)
        else:
            self.use(value, target)

    def _bind_member(
        self, target: ast.Attribute | ast.Subscript, value: Any, node: ast.AST | None
    ) -> None:
        if self.program.dotted(target) in self.program.argv:
            raise UnclearError("it changes its words", node)
        owner = self.value(target.value)
        key = target.attr if isinstance(target, ast.Attribute) else self._key(target)
        if isinstance(owner, Words):
            raise UnclearError("it changes its words", node)
        self.name(value, key or "")
        if isinstance(owner, Ref) and owner.kind == "object" and key is not None:
            self.env[owner, key] = value
            return
        self.effects.append(("set", ast.dump(target) if self.program.is_python else key, value))
        if isinstance(owner, Ref) and owner.kind == "object":
            self.env[owner, "..."] = UNKNOWN
            self.effects.append(("computed key",))
        if not isinstance(value, Joined):
            self.use(value, target, key or "")

    def _key(self, node: ast.Subscript) -> str | None:
        index = self.value(node.slice)
        is_text = isinstance(index, Known) and isinstance(index.value, str)
        return index.value if is_text else None

    def _bind_list(self, targets: list[ast.expr], value: Any, node: ast.AST) -> None:
        if isinstance(value, Maybe):
            value = value.value
        if isinstance(value, Ref) and value.kind == "list":
            value = self.items(value)
        for at, target in enumerate(targets):
            if isinstance(target, ast.Starred):
                self.bind(target.value, self.cut(value, Known(at), None, node), node)
            elif not isinstance(target, ast.Constant):  # a place that is left out
                self._bind_item(target, value, at, node)
        if isinstance(value, Words) and self.program.is_python:
            self._exact(value, targets, node)

    def _bind_item(self, target: ast.AST, value: Any, at: int, node: ast.AST) -> None:
        part = self.element(value, Known(at), node) if value is not UNKNOWN else UNKNOWN
        if isinstance(target, ast.NamedExpr):
            part = self.merged(part, self.under((), target.value))
            target = target.target
        self.bind(target, part, node)

    def _exact(self, words: Words, targets: list[ast.expr], node: ast.AST) -> None:
        """`a, b = sys.argv[1:]` refuses any other number of words."""
        if any(isinstance(target, ast.Starred) for target in targets) or self.conditional:
            raise UnclearError("it takes its words apart in a way that is not followed", node)
        self.learn([("count", words.base, words.start + len(targets))])

    def _bind_object(self, target: ast.Dict, value: Any, node: ast.AST | None) -> None:
        for key, child in zip(target.keys, target.values, strict=True):
            name = str(key.value) if isinstance(key, ast.Constant) else ""
            part = self.member(value, name) if isinstance(value, Ref) and name else UNKNOWN
            if node is not None and f"{self.program.dotted(node)}.{name}" in self.program.argv:
                part = Words(self.program.argv[f"{self.program.dotted(node)}.{name}"])
            inner: ast.AST = child
            if isinstance(inner, ast.NamedExpr):
                part = self.merged(part, self.under((), inner.value))
                inner = inner.target
            self.bind(inner, part)

    def _named(self, node: ast.NamedExpr, _: str) -> Any:
        value = self.value(node.value, target_name(node.target))
        self.bind(node.target, value, node.value, anywhere=not self.program.is_python)
        return value

    def _increment(self, node: Increment, _: str) -> Any:
        before = self.value(node.target)
        after: Any = UNKNOWN
        if isinstance(before, LoopIndex | Place | Length):
            after = before._replace(plus=before.plus + node.step)
        elif isinstance(before, Known) and type(before.value) is int:
            after = Known(before.value + node.step)
        self.bind(node.target, after, node, anywhere=True)
        return after if node.is_prefix else before

    def _return(self, node: ast.Return) -> list[WayOut]:
        value = self.value(node.value) if node.value is not None else Known(None)
        self.alive = False
        return [] if self.left else [WayOut("return", self.env, value)]

    def _raise(self, node: ast.Raise) -> list[WayOut]:
        if node.exc is not None:
            self.use(self.value(node.exc), node)
        self.alive = False
        return []

    def _break(self, _: ast.Break) -> list[WayOut]:
        self.alive = False
        return [WayOut("break", self.env)]

    def _continue(self, _: ast.Continue) -> list[WayOut]:
        self.alive = False
        return [WayOut("continue", self.env)]

    def _definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[WayOut]:
        self.store(node.name, self.python_routine(node, node.body))
        return []

    def _class(self, node: ast.ClassDef) -> list[WayOut]:
        names = {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}
        if "argv" in names:
            raise UnclearError("a class reads the words", node)
        return []

    def _delete(self, node: ast.Delete) -> list[WayOut]:
        for target in node.targets:
            if isinstance(target, ast.Subscript) and isinstance(self.value(target.value), Words):
                raise UnclearError("it changes its words", node)
        return []

    def _nothing(self, _: ast.stmt) -> list[WayOut]:
        return []

    def _with(self, node: ast.With | ast.AsyncWith) -> list[WayOut]:
        for item in node.items:
            self.use(self.value(item.context_expr), node)
        return self.block(node.body)

    def branch(self, facts: Sequence[Fact], body: Sequence[ast.stmt]) -> tuple[list[WayOut], bool]:
        """Follow statements that are reached under a condition; tell whether a way leads on."""
        known = len(self.facts)
        self.facts += facts
        self.conditional += 1
        ended = self.block(body)
        self.conditional -= 1
        del self.facts[known:]
        alive, self.alive = self.alive, True
        return ended, alive

    def _if(self, node: ast.If) -> list[WayOut]:
        if _is_main_block(node) and not self.depth:
            return self.block(node.body)
        decision = self.decided(node.test)
        if decision.truth is not None:
            return self.block(node.body if decision.truth else node.orelse)
        return self.both(decision, node.body, node.orelse)

    def both(
        self, decision: Tested, body: Sequence[ast.stmt], orelse: Sequence[ast.stmt]
    ) -> list[WayOut]:
        """Follow both branches of a test that depends on what the caller gives."""
        before = self.env
        self.env = dict(before)
        ended, goes_on = self.branch(decision.yes, body)
        after, self.env = self.env, dict(before)
        others, other_goes_on = self.branch(decision.no, orelse)
        if not goes_on and self.refuses(body):
            self.learn(decision.no)
        if not other_goes_on and self.refuses(orelse):
            self.learn(decision.yes)
        if goes_on and other_goes_on:
            self.env = self.merged_env(after, self.env)
        elif goes_on:
            self.env = after
            self.facts += decision.yes
        elif other_goes_on:
            self.facts += decision.no
        else:
            self.alive = False
        return ended + others

    def merged_env(self, one: Env, other: Env) -> Env:
        if one == other:
            return one
        made = {**one, **other}
        for key in one.keys() & other.keys():
            if one[key] is not other[key] and one[key] != other[key]:
                made[key] = self.merged(one[key], other[key])
        return made

    def _switch(self, node: Switch) -> list[WayOut]:
        """Follow a switch: each case goes on into the next unless it ends."""
        subject = self.value(node.subject)
        self.touch(subject)
        tests = [
            (Tested(True) if value is None else self._case(subject, value, node), at)
            for at, (value, _) in enumerate(node.cases)
        ]
        default = [at for at, (value, _) in enumerate(node.cases) if value is None]
        chosen = [at for test, at in tests if test.truth and at not in default]
        is_open = any(test.truth is None for test, _ in tests)
        if not is_open:
            starts = chosen[:1] or default
            body = [each for _, part in node.cases[starts[0] :] for each in part] if starts else []
            return self._leave_switch(self.block(body))
        if self.loop is not None and subject == self.loop.current:
            raise UnclearError("what it does with a word depends on a test not followed", node)
        ended: list[WayOut] = []
        for test, at in tests:
            body = [each for _, part in node.cases[at:] for each in part]
            ended += self._leave_switch(self.both(Tested(None, test.yes, ()), body, []))
        return ended

    def _case(self, subject: Any, value: ast.expr, node: ast.AST) -> Tested:
        if subject == Known(True):
            return self.decided(value)  # switch (true) { case test: … }
        return self.equal(subject, self.value(value), node)

    def _leave_switch(self, ended: list[WayOut]) -> list[WayOut]:
        for one in ended:
            if one.kind == "break":
                self.env = self.merged_env(self.env, one.env) if self.alive else one.env
                self.alive = True
        return [one for one in ended if one.kind != "break"]

    def _match(self, node: ast.Match) -> list[WayOut]:
        self.use(self.value(node.subject), node)
        if isinstance(self.value(node.subject), Known) and self.loop is not None:
            raise UnclearError("it matches its words with patterns", node)
        ended: list[WayOut] = []
        for case in node.cases:
            ended += self.both(Tested(), case.body, [])
        return ended

    def _try(self, node: ast.Try) -> list[WayOut]:
        before = dict(self.env)
        conditional = self.conditional
        if self.program.is_python and any(map(_catches_index, node.handlers)):
            self.conditional += 1  # a missing word is no failure there
        ended = self.block([*node.body, *node.orelse])
        self.conditional = conditional
        after, alive = self.env, self.alive
        for handler in node.handlers:
            self.env, self.alive = dict(before), True
            more, goes_on = self.branch((), handler.body)
            ended += more
            if goes_on:
                after = self.merged_env(after, self.env) if alive else self.env
                alive = True
        self.env, self.alive = after, alive
        return ended + (self.block(node.finalbody) if alive else [])

    def end_pass(self, env: Env) -> None:
        """Go back to where a pass began that could not be followed to its end."""
        self.scope, self.depth, self.conditional, active, facts = self.resume
        del self.active[active:], self.facts[facts:]
        self.env, self.loop, self.alive, self.left, self.touched = env, None, True, False, False

    def invoke(self, routine: Routine, arguments: list[Any], node: ast.Call) -> Any:
        follows = routine.size <= _SMALL or self.is_hot(routine) or any(map(_is_live, arguments))
        if not follows or routine in self.active or len(self.active) > _DEEPEST:
            for value, parameter in zip(arguments, _filled(routine.parameters), strict=False):
                self.give(value, node, target_name(parameter) if parameter else "")
            for keyword in node.keywords:
                self.give(self.value(keyword.value), node, keyword.arg or "")
            self.effects.append(("called", id(routine)))
            return UNKNOWN
        outer = self.scope
        self.refs += 1
        self.parents[self.refs] = routine.scope
        given = {word.arg: self.value(word.value, word.arg or "") for word in node.keywords}
        self.scope = self.refs
        self._bind_parameters(routine, arguments, given)
        self.active.append(routine)
        self.depth += 1
        ended = self.block(routine.body())
        self.depth -= 1
        self.active.pop()
        self.scope = outer
        return self._returned(ended)

    def _bind_parameters(
        self, routine: Routine, arguments: list[Any], given: dict[str | None, Any]
    ) -> None:
        for at, parameter in enumerate(routine.parameters):
            if isinstance(parameter, ast.Starred):
                self.bind(parameter.value, tuple(arguments[at:]))
                return
            target: ast.AST = parameter
            default: ast.AST | None = None
            if isinstance(parameter, ast.NamedExpr):
                target, default = parameter.target, parameter.value
            value = arguments[at] if at < len(arguments) else given.get(target_name(target))
            is_missing = value is None or (not self.program.is_python and value == Known(None))
            if is_missing and default is not None:
                value = self.value(default)
            self.bind(target, UNKNOWN if value is None else value)

    def _returned(self, ended: list[WayOut]) -> Any:
        returns = [one for one in ended if one.kind == "return"]
        if self.alive:
            returns.append(WayOut("return", self.env))
        if not returns:
            self.left, self.alive = True, True
            return UNKNOWN
        value, self.env = returns[0].value, returns[0].env
        for one in returns[1:]:
            value = self.merged(value, one.value)
            self.env = self.merged_env(self.env, one.env)
        self.alive = True
        return value

    def other_loop(self, body: list[ast.stmt], target: ast.AST | None = None) -> list[WayOut]:
        """A loop over something else: it may run or not."""
        before = dict(self.env)
        if target is not None:
            self.bind(target, UNKNOWN)
        ended, goes_on = self.branch((), body)
        for env in [one.env for one in ended if one.kind != "return"]:
            before = self.merged_env(before, env)
        self.env = self.merged_env(before, self.env) if goes_on else before
        return [one for one in ended if one.kind == "return"]


def _filled(parameters: list[ast.expr]) -> Iterator[ast.expr | None]:
    yield from parameters
    while True:
        yield None


def _is_live(value: Any) -> bool:
    if isinstance(value, Ref):
        return value.kind == "stream"
    return isinstance(value, Words | Length | Place | LoopIndex | Joined)


def _is_main_block(node: ast.If) -> bool:
    return any(isinstance(part, ast.Name) and part.id == "__name__" for part in ast.walk(node.test))


def _catches_index(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    names = {part.id for part in ast.walk(handler.type) if isinstance(part, ast.Name)}
    return bool(names & {"IndexError", "LookupError", "Exception", "ValueError", "StopIteration"})
