"""Follows values through those statements of a program that matter to a reader."""

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from skillpouch.signatures.python.follow_calls import CallFollower, Maker, Unfollowed
from skillpouch.signatures.python.lines import Marks
from skillpouch.signatures.python.literals import ResolvedCall, items_of, unpack
from skillpouch.signatures.python.outline import Outline
from skillpouch.signatures.python.scopes import Instance, Scope, Tracked, holds_tracked
from skillpouch.signatures.python.values import (
    UNKNOWN,
    Class,
    FunctionNode,
    PythonFunction,
    is_plain,
)


class Relevance:
    """The lines that matter to a reader.

    These contain one of the words, a name that holds what one of the words made, or a call of a
    function with such lines.
    """

    def __init__(self, outline: Outline, words: Sequence[str]) -> None:
        self._lines = outline.lines
        self._marks = Marks()
        offsets = [offset for word in words for offset in self._lines.offsets(word)]
        receivers = self._lines.receivers(offsets)
        offsets += [offset for name in receivers for offset in self._lines.offsets(name)]
        self._known = {*words, *receivers}
        self._marks.add(self._lines.at(offsets))
        self._add_callers(outline)

    def add(self, name: str) -> None:
        """Mark every line with the name as one that matters."""
        if name not in self._known:
            self._known.add(name)
            self._marks.add(self._lines.of(name))

    def covers(self, node: ast.AST) -> bool:
        return self._marks.within_node(node)

    def is_called_in(self, node: ast.AST) -> bool:
        """Tell whether a name that matters is called inside: a line may only mention it."""
        called = (part.func for part in ast.walk(node) if isinstance(part, ast.Call))
        return any(
            isinstance(name, ast.Name | ast.Attribute)
            and (name.id if isinstance(name, ast.Name) else name.attr) in self._known
            for name in called
        )

    def _add_callers(self, outline: Outline) -> None:
        """Mark the callers of functions with marked lines, until no new ones are found."""
        waiting = list(outline.definitions)
        found = True
        while found:
            relevant = [node for node in waiting if self.covers(node)]
            waiting = [node for node in waiting if node not in relevant]
            found = bool(relevant)
            for node in relevant:
                self._known.add(node.name)
                # Only lines that call it: `main` is also a word of prose.
                self._marks.add(self._lines.of(f"{node.name}("))
                self._marks.add(self._lines.of(f"@{node.name}"))


_MOST_ROUNDS = 300
_LEAVING = (ast.Return, ast.Break, ast.Continue, ast.Raise)

# The statement that certainly ends a block, such as `return`; None if there is none.
Ending = type[ast.stmt] | None


@dataclass(slots=True, eq=False)
class Frame:
    """The function being followed; inside `unrolled` loops every statement is followed."""

    scope: Scope
    returned: list[Any] = field(default_factory=list)
    unrolled: int = 0


class Follower:
    """Follows one script; `makers` make the objects to follow, `words` mark the lines that matter.

    `on_unfollowed` is called for methods of objects that were not made in this file. Functions of
    other files are followed if `modules` returns the outline of their module.
    """

    def __init__(
        self,
        outline: Outline,
        *,
        words: Sequence[str],
        makers: Mapping[str, Maker],
        on_unfollowed: Unfollowed,
        modules: Callable[[str], Outline | None] | None = None,
    ) -> None:
        self._words = words
        self._relevances = {id(outline): Relevance(outline, words)}
        self._modules = modules
        self._scopes: dict[str, Scope | None] = {}
        self.calls = CallFollower(makers, self._run_function, on_unfollowed, self._elsewhere)
        self.module = Scope(outline, outline.tree.body, call=self.calls)

    def run_module(self) -> None:
        """Follow the statements at the top level, and whatever they call."""
        self._run(self.module.outline.tree.body, Frame(self.module))

    def run_definition(self, name: str) -> None:
        """Follow a function, or a class and its methods, unless it was already followed."""
        value = self.module.lookup(name)
        if not isinstance(value, Class | PythonFunction) or value.node in self.calls.reached:
            return
        nothing = ResolvedCall(line=value.node.lineno)
        made = self.calls.apply(value, nothing)
        if isinstance(value, Class):
            for node in value.node.body:
                if isinstance(node, FunctionNode) and node not in self.calls.reached:
                    self.calls.use(made, node.name, nothing)

    def release(self) -> None:
        """Break reference cycles: otherwise the tree lives until the next garbage collection."""
        for scope in (self.module, *filter(None, self._scopes.values())):
            scope.release()
        del self.calls

    def _elsewhere(self, name: str) -> Any:
        """Return what another file of the skill calls by this name."""
        module, _, inside = name.rpartition(".")
        if self._modules is None or not module:
            return UNKNOWN
        if module not in self._scopes:
            outline = self._modules(module)
            scope = None if outline is None else Scope(outline, outline.tree.body, call=self.calls)
            if scope is not None:
                scope.budget = self.module.budget
                self._relevances[id(outline)] = Relevance(scope.outline, self._words)
            self._scopes[module] = scope
        found = self._scopes[module]
        return UNKNOWN if found is None else found.lookup(inside)

    def _relevance(self, frame: Frame) -> Relevance:
        return self._relevances[id(frame.scope.outline)]

    def _run(self, body: Sequence[ast.stmt], frame: Frame) -> Ending:
        for node in body:
            if frame.unrolled or self._relevance(frame).covers(node):
                ending = self._run_statement(node, frame)
                if ending:
                    return ending
            if isinstance(node, _LEAVING):
                return type(node)
        return None

    def _run_statement(self, node: ast.stmt, frame: Frame) -> Ending:
        statement = _STATEMENTS.get(type(node))
        if statement:
            return statement(self, node, frame)
        for part in ast.iter_child_nodes(node):
            if isinstance(part, ast.expr):
                frame.scope.value(part)
        return None

    def _run_function(self, node: FunctionNode, scope: Scope) -> Any:
        frame = Frame(scope)
        self._run(node.body, frame)
        if not frame.returned and isinstance(node.body[-1], ast.Return):
            self.on_return(node.body[-1], frame)  # this line was not marked before
        first = frame.returned[0] if frame.returned else UNKNOWN
        tracked = [value for value in frame.returned if holds_tracked(value)]
        if len(frame.returned) == 1 or all(value is first for value in frame.returned):
            return first
        return tracked[0] if len(tracked) == 1 else UNKNOWN

    def on_assignment(self, node: ast.Assign | ast.AnnAssign, frame: Frame) -> Ending:
        if node.value:
            value = frame.scope.value(node.value)
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                self._assign(target, value, frame)
        return None

    def _assign(self, target: ast.expr, value: Any, frame: Frame) -> None:
        if isinstance(target, ast.Attribute):
            owner = frame.scope.value(target.value)
            if isinstance(owner, Instance | Class):
                owner.attributes[target.attr] = value
                self._watch(target.attr, value, frame)
            elif isinstance(owner, Tracked):
                owner.assign(target.attr, value)
        elif isinstance(target, ast.Subscript):
            self._assign_item(target, value, frame)
        else:
            for name, part in unpack(target, value).items():
                self._bind(name, part, frame)

    def _assign_item(self, target: ast.Subscript, value: Any, frame: Frame) -> None:
        key = frame.scope.value(target.slice)
        if not isinstance(target.value, ast.Name) or not isinstance(key, str | int):
            return
        name = target.value.id
        if holds_tracked(value):
            container = frame.scope.bound.setdefault(name, {})
            if isinstance(container, dict):
                container[key] = value
                self._relevance(frame).add(name)

    def _bind(self, name: str, value: Any, frame: Frame) -> None:
        scope, outline = frame.scope, frame.scope.outline
        if frame.unrolled or name in scope.bound or self._watch(name, value, frame):
            scope.bound[name] = value
            if name in outline.global_names and outline is self.module.outline:
                self.module.bound[name] = value

    def _watch(self, name: str, value: Any, frame: Frame) -> bool:
        watched = holds_tracked(value) or isinstance(value, Instance | PythonFunction)
        if watched:
            self._relevance(frame).add(name)
        return watched

    def on_return(self, node: ast.Return, frame: Frame) -> Ending:
        if node.value:
            frame.returned.append(frame.scope.value(node.value))
        return ast.Return

    def on_if(self, node: ast.If, frame: Frame) -> Ending:
        test = frame.scope.value(node.test)
        if is_plain(test) or isinstance(test, Tracked):
            return self._run(node.body if test else node.orelse, frame)
        before = dict(frame.scope.bound)
        self._run(node.body, frame)
        if node.orelse:
            after_body, frame.scope.bound = frame.scope.bound, dict(before)
            self._run(node.orelse, frame)
            frame.scope.bound = _joined(before, after_body, frame.scope.bound)
        return None

    def on_for(self, node: ast.For | ast.AsyncFor, frame: Frame) -> Ending:
        items = items_of(frame.scope.value(node.iter))
        if not frame.unrolled and not self._relevance(frame).is_called_in(node):
            return None
        if items is None or len(items) > _MOST_ROUNDS:
            frame.scope.bound |= unpack(node.target, UNKNOWN)
            self._run([*node.body, *node.orelse], frame)
            return None
        frame.unrolled += 1
        for item in items:
            self._assign(node.target, item, frame)
            if self._run(node.body, frame) in (ast.Break, ast.Return):
                break
        frame.unrolled -= 1
        self._run(node.orelse, frame)
        return None

    def on_with(self, node: ast.With | ast.AsyncWith, frame: Frame) -> Ending:
        for item in node.items:
            value = frame.scope.value(item.context_expr)
            if item.optional_vars:
                self._assign(item.optional_vars, value, frame)
        return self._run(node.body, frame)

    def on_try(self, node: ast.Try | ast.TryStar, frame: Frame) -> Ending:
        self._run([*node.body, *node.orelse], frame)
        after = dict(frame.scope.bound)
        for handler in node.handlers:
            self._run(handler.body, frame)
        frame.scope.bound |= after
        self._run(node.finalbody, frame)
        return None

    def on_while(self, node: ast.While, frame: Frame) -> Ending:
        frame.scope.value(node.test)
        self._run([*node.body, *node.orelse], frame)
        return None

    def on_match(self, node: ast.Match, frame: Frame) -> Ending:
        for case in node.cases:
            self._run(case.body, frame)
        return None

    def on_definition(self, node: FunctionNode, frame: Frame) -> Ending:
        function = PythonFunction(node, frame.scope)
        if frame.scope is not self.module or node.name not in frame.scope.outline.functions:
            frame.scope.bound[node.name] = function
        for decorator in node.decorator_list:
            if self._relevance(frame).covers(decorator):
                value = frame.scope.value(decorator)
                if isinstance(value, PythonFunction):
                    self.calls.apply(value, ResolvedCall(line=node.lineno, arguments=[function]))
        return None

    def on_class(self, node: ast.ClassDef, frame: Frame) -> Ending:
        value = self.module.lookup(node.name) if frame.scope is self.module else UNKNOWN
        inner = Frame(Scope(frame.scope.outline, node.body, outer=frame.scope))
        self._run(node.body, inner)
        if isinstance(value, Class):
            value.attributes.update(inner.scope.bound)
        else:
            frame.scope.bound[node.name] = Class(node, frame.scope, inner.scope.bound)
        return None


_STATEMENTS: dict[type[ast.stmt], Callable[[Follower, Any, Frame], Ending]] = {
    ast.Assign: Follower.on_assignment,
    ast.AnnAssign: Follower.on_assignment,
    ast.Return: Follower.on_return,
    ast.If: Follower.on_if,
    ast.For: Follower.on_for,
    ast.AsyncFor: Follower.on_for,
    ast.With: Follower.on_with,
    ast.AsyncWith: Follower.on_with,
    ast.Try: Follower.on_try,
    ast.TryStar: Follower.on_try,
    ast.While: Follower.on_while,
    ast.Match: Follower.on_match,
    ast.FunctionDef: Follower.on_definition,
    ast.AsyncFunctionDef: Follower.on_definition,
    ast.ClassDef: Follower.on_class,
}


def _joined(
    before: Mapping[str, Any], one: Mapping[str, Any], other: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what names stand for after one of two branches: unknown where both changed them."""
    names = {}
    for name in {**one, **other}:
        old = before.get(name)
        changed = [branch[name] for branch in (one, other) if branch.get(name, old) is not old]
        names[name] = old if not changed else changed[0]
        if len(changed) > 1 and changed[0] is not changed[1]:
            names[name] = UNKNOWN
    return names
