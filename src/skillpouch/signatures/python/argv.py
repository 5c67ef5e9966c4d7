"""How a program reads `sys.argv` by hand: how many words, and which."""

import ast
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from skillpouch.signatures.argv import ArgvArgument
from skillpouch.signatures.python.outline import BLOCKS, Outline, is_main_block
from skillpouch.signatures.signature import JsonSchema
from skillpouch.signatures.usage_lines import Planned

_HELP = frozenset({"-h", "--help", "help"})
_LEAVING = frozenset({"sys.exit", "os._exit"})
_LEAVING_BUILTINS = frozenset({"exit", "quit"})
_UNKNOWN = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """One `sys.argv[number]`; `guarded` is the least length that a test around it ensures, or 0."""

    number: int
    guarded: int
    name: str = ""
    default: str = ""
    converter: str = ""
    callee: str = ""
    position: int = 0


@dataclass(slots=True)
class ArgvReads:
    """All reads of `sys.argv`; the script exits if it is shorter than `fewest`."""

    taken: list[Taken] = field(default_factory=list)
    fewest: int = 0


class _UnclearError(Exception):
    """The words are also used in another way."""


def argv_reads(outline: Outline) -> ArgvReads | None:
    """Return every use of the command line; None if one of them has no constant index."""
    reader = _Reader(outline)
    try:
        reader.block(outline.tree.body, 0)
    except _UnclearError:
        return None
    return reader.found


class _Reader:
    def __init__(self, outline: Outline) -> None:
        self.outline = outline
        self.found = ArgvReads()

    def block(self, body: Sequence[ast.stmt], guarded: int) -> None:
        for node in body:
            if isinstance(node, ast.If):
                guarded = self.condition(node, guarded)
            else:
                self.statement(node, guarded)

    def condition(self, node: ast.If, guarded: int) -> int:
        """Follow both branches; return the length that is sure after them."""
        if is_main_block(node):
            self.block(node.body, guarded)
            self.block(node.orelse, guarded)
            return guarded
        self.expression(node.test, guarded)
        with_body, without = self.lengths(node.test)
        self.block(node.body, with_body or self.branch(guarded))
        self.block(node.orelse, without or self.branch(guarded))
        if without and self.leaves(node.body):
            self.found.fewest = max(self.found.fewest, without)
        return guarded

    def branch(self, guarded: int) -> int:
        return guarded or _UNKNOWN

    def statement(self, node: ast.AST, guarded: int) -> None:
        inside = guarded
        if isinstance(node, ast.For | ast.AsyncFor | ast.While | ast.Match):
            inside = self.branch(guarded)
        if isinstance(node, ast.Try | ast.TryStar) and _catches_index(node):
            inside = _UNKNOWN
        blocks = BLOCKS.get(type(node), ())
        for name, value in ast.iter_fields(node):
            if name in blocks:
                for child in value:
                    self.child(child, inside)
            else:
                for part in value if isinstance(value, list) else [value]:
                    if isinstance(part, ast.AST):
                        self.expression(part, guarded, _target(node))

    def child(self, node: ast.AST, guarded: int) -> None:
        if isinstance(node, ast.stmt):
            self.block([node], guarded)
        else:
            self.statement(node, guarded)

    def expression(self, node: ast.AST, guarded: int, name: str = "") -> None:
        number = self.number(node)
        if number is not None:
            self.take(Taken(number=number, guarded=guarded, name=name))
        elif self.is_argv(node):
            raise _UnclearError
        elif isinstance(node, ast.IfExp):
            self.choice(node, guarded, name)
        elif isinstance(node, ast.Compare):
            self.comparison(node, guarded)
        elif isinstance(node, ast.Call):
            self.call(node, guarded, name)
        else:
            for part in ast.iter_child_nodes(node):
                self.expression(part, guarded)

    def choice(self, node: ast.IfExp, guarded: int, name: str) -> None:
        """`sys.argv[2] if len(sys.argv) > 2 else "out.txt"`."""
        with_body, without = self.lengths(node.test)
        self.expression(node.test, guarded)
        number = self.number(node.body)
        is_text = isinstance(node.orelse, ast.Constant) and isinstance(node.orelse.value, str)
        if number is not None and with_body:
            default = node.orelse.value if is_text else ""  # type: ignore[attr-defined]  # is_text says so
            self.take(Taken(number=number, guarded=with_body, name=name, default=default))
        else:
            self.expression(node.body, with_body or self.branch(guarded), name)
        self.expression(node.orelse, without or self.branch(guarded), name)

    def comparison(self, node: ast.Compare, guarded: int) -> None:
        parts = [node.left, *node.comparators]
        texts = {
            part.value
            for node_part in parts
            for part in ast.walk(node_part)
            if isinstance(part, ast.Constant) and isinstance(part.value, str)
        }
        numbers = [part for part in parts if self.number(part) is not None]
        if numbers and not texts <= _HELP:
            raise _UnclearError  # the word may be a sub-command or a flag
        for part in parts:
            if part in numbers and texts:
                continue
            if self.is_length(part):
                if self.lengths(node) == (0, 0):
                    raise _UnclearError
                continue
            self.expression(part, guarded)

    def call(self, node: ast.Call, guarded: int, name: str) -> None:
        if self.is_length(node):
            raise _UnclearError  # the length is used outside a test
        callee = node.func.id if isinstance(node.func, ast.Name) else ""
        self.expression(node.func, guarded)
        for position, argument in enumerate(node.args):
            number = self.number(argument)
            if number is None:
                self.expression(argument, guarded)
                continue
            alone = len(node.args) == 1 and not node.keywords
            self.take(
                Taken(
                    number=number,
                    guarded=guarded,
                    name=name if alone else "",
                    converter=callee if alone else "",
                    callee=callee,
                    position=position,
                )
            )
        for keyword in node.keywords:
            self.expression(keyword.value, guarded, keyword.arg or "")

    def take(self, taken: Taken) -> None:
        if not taken.number:
            return
        if taken.guarded and taken.guarded <= taken.number:
            raise _UnclearError  # the test around it does not ensure that this word exists
        self.found.taken.append(taken)

    def number(self, node: ast.AST) -> int | None:
        if not isinstance(node, ast.Subscript) or not self.is_argv(node.value):
            return None
        index = node.slice.value if isinstance(node.slice, ast.Constant) else None
        return index if type(index) is int and isinstance(node.ctx, ast.Load) else None

    def is_argv(self, node: ast.AST) -> bool:
        return (
            isinstance(node, ast.Name | ast.Attribute) and self.outline.dotted(node) == "sys.argv"
        )

    def is_length(self, node: ast.AST) -> bool:
        return (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "len"
            and any(map(self.is_argv, node.args))
        )

    def lengths(self, test: ast.expr) -> tuple[int, int]:
        """Return the least length if a test holds, and if it fails; 0 if it ensures none."""
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            return max(self.lengths(value)[0] for value in test.values), 0
        if isinstance(test, ast.BoolOp):
            return 0, max(self.lengths(value)[1] for value in test.values)
        if not isinstance(test, ast.Compare) or not self.is_length(test.left):
            return 0, 0
        bound = test.comparators[0]
        value = bound.value if isinstance(bound, ast.Constant) else None
        if len(test.ops) > 1 or type(value) is not int:
            return 0, 0
        lengths = _LENGTHS.get(type(test.ops[0]))
        return lengths(value) if lengths else (0, 0)

    def leaves(self, body: Sequence[ast.stmt]) -> bool:
        last = body[-1]
        if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
            called = last.value.func
            is_builtin = isinstance(called, ast.Name) and called.id in _LEAVING_BUILTINS
            return is_builtin or self.outline.dotted(called) in _LEAVING
        return isinstance(last, ast.Return | ast.Raise)


# `sys.argv` is never empty: its first word is the script, so the least length is 1.
_LENGTHS: dict[type[ast.cmpop], Callable[[int], tuple[int, int]]] = {
    ast.Gt: lambda bound: (bound + 1, 1),
    ast.GtE: lambda bound: (bound, 1),
    ast.Lt: lambda bound: (1, bound),
    ast.LtE: lambda bound: (1, bound + 1),
    ast.NotEq: lambda bound: (2 if bound == 1 else 1, bound),
    ast.Eq: lambda bound: (bound, 2 if bound == 1 else 1),
}


def _target(node: ast.AST) -> str:
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target = node.targets[0]
    elif isinstance(node, ast.AnnAssign):
        target = node.target
    else:
        return ""
    return target.id if isinstance(target, ast.Name) else ""


def _catches_index(node: ast.Try | ast.TryStar) -> bool:
    caught = (part for handler in node.handlers if handler.type for part in ast.walk(handler.type))
    return any(
        isinstance(part, ast.Name) and part.id in ("IndexError", "LookupError") for part in caught
    )


_MOST = 20
_USAGE_WORD = re.compile(r"<[^<>]{1,60}>|\[[^\[\]]{1,60}\]|\S+")
_NUMBERS = {"int": "integer", "float": "number"}


@dataclass(slots=True)
class _Seen:
    """What is known of one argument from all its reads."""

    name: str = ""
    kind: str = "string"
    default: str = ""
    guarded: list[int] = field(default_factory=list)


def read_argv_positionals(outline: Outline, usage: str) -> list[Planned] | None:
    """Return an argument for each of `sys.argv[1]`, `[2]` …; None if there are other uses."""
    reads = argv_reads(outline)
    seen = _seen(reads.taken, outline) if reads else {}
    if not reads or not 0 < len(seen) <= _MOST or set(seen) != set(range(1, len(seen) + 1)):
        return None
    names = _names(seen, usage)
    if not names or any(_is_unclear(number, one, reads) for number, one in seen.items()):
        return None
    planned: list[Planned] = []
    required = False
    for number in sorted(seen, reverse=True):
        # A word before a required one is required, too.
        required = required or number < reads.fewest or 0 in seen[number].guarded
        argument = ArgvArgument(name=names[number - 1], nargs=None if required else "?")
        planned.insert(0, Planned(argument, _schema(seen[number], required), required))
    return planned


def _seen(taken: Iterable[Taken], outline: Outline) -> dict[int, _Seen]:
    seen: dict[int, _Seen] = {}
    for one in taken:
        about = seen.setdefault(one.number, _Seen())
        about.name = about.name or one.name or _parameter(one, outline)
        about.kind = _NUMBERS.get(one.converter, about.kind)
        about.default = about.default or one.default
        about.guarded.append(one.guarded)
    return seen


def _parameter(taken: Taken, outline: Outline) -> str:
    """Return the name of the parameter of `convert` in `convert(sys.argv[1])`."""
    node = outline.functions.get(taken.callee)
    parameters = [*node.args.posonlyargs, *node.args.args] if node else []
    return parameters[taken.position].arg if taken.position < len(parameters) else ""


def _names(seen: dict[int, _Seen], usage: str) -> list[str]:
    """Return the name of each argument in order; an empty list if one is unknown."""
    words = _usage_names(usage)
    shown = words if len(words) == len(seen) else [""] * len(seen)
    names = [(seen[number].name or shown[number - 1]).lower() for number in sorted(seen)]
    return names if all(names) and len(set(names)) == len(names) else []


def _usage_names(usage: str) -> list[str]:
    """`convert.py <input> [output dir]` → input, output_dir; none when it shows flags."""
    words: list[str] = _USAGE_WORD.findall(usage)
    position = next((at for at, word in enumerate(words) if word.endswith(".py")), 0)
    names = [re.sub(r"\W+", "_", word.strip("<>[]")).strip("_") for word in words[position + 1 :]]
    unclear = "..." in usage or re.search(r"(?:^|[\s\[])--?\w", usage)
    return [] if unclear or not all(name.isidentifier() for name in names) else names


def _is_unclear(number: int, seen: _Seen, reads: ArgvReads) -> bool:
    """Tell whether a word is read only if later ones exist, too: then its use is unclear."""
    if number < reads.fewest or 0 in seen.guarded:
        return False
    return any(least > number + 1 for least in seen.guarded)


def _schema(seen: _Seen, required: bool) -> JsonSchema:
    schema: JsonSchema = {"type": seen.kind}
    if seen.default and not required and seen.kind == "string":
        schema["default"] = seen.default
    return schema
