"""Programs nobody here wrote, the parsers they really build, and where our reading differs."""

import ast
import json
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skillpouch.signatures.argv import ArgvArgument
from skillpouch.signatures.signature import Interface, JsonSchema, Signature

ROOT = Path(__file__).parents[3]
PACKAGES = ROOT / "build" / "programs"
RECORDER = Path(__file__).with_name("record_parsers.py")

# What argparse calls the action, and what the plan calls it.
ACTIONS = {
    "_StoreAction": "store",
    "_StoreTrueAction": "store_true",
    "_StoreFalseAction": "store_false",
    "_StoreConstAction": "store_const",
    "_AppendAction": "append",
    "_AppendConstAction": "append_const",
    "_ExtendAction": "extend",
    "_CountAction": "count",
    "BooleanOptionalAction": "boolean_optional",
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Program:
    path: Path
    text: str
    parser: dict[str, Any]
    shared: bool

    @property
    def is_literal(self) -> bool:
        """Tell whether every argument comes from a call in this file with its names in sight."""
        lines = {argument["line"] for argument in _all_arguments(self.parser)}
        return (
            bool(lines)
            and not self.shared
            and 0 not in lines
            and None not in lines
            and lines <= _literal_lines(self.text)
        )


def find_programs() -> list[Path]:
    """Return every file of the standard library and of the packages that makes a parser."""
    skipped = {"site-packages", "dist-packages", "test", "tests"}
    found = [
        path
        for root in (Path(sysconfig.get_path("stdlib")), PACKAGES)
        for path in [*root.rglob("*.py"), *root.glob("bin/*")]
        if skipped.isdisjoint(path.relative_to(root).parts) and path.is_file()
    ]
    return sorted({path for path in found if b"ArgumentParser(" in path.read_bytes()})


def record(paths: list[Path]) -> list[Program]:
    """Start every program in one of two recorders; keep those that came to parse."""
    halves = [paths[0::2], paths[1::2]]
    with ThreadPoolExecutor(2) as pool:
        answers = [line for lines in pool.map(_record_half, halves) for line in lines]
    programs = []
    for answer in map(json.loads, answers):
        if answer["parser"] is not None:
            path = Path(answer["path"])
            text = path.read_bytes().decode("utf-8", "replace")
            programs.append(
                Program(path=path, text=text, parser=answer["parser"], shared=answer["shared"])
            )
    return sorted(programs, key=lambda program: program.path)


def _record_half(paths: list[Path]) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-I", str(RECORDER)],
        input="\n".join(map(str, paths)),
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    return done.stdout.splitlines()


def differences(program: Program, signature: Signature) -> Iterator[str]:
    """Yield every way in which a reading is not what the program really built."""
    if signature.uncertain:
        yield f"uncertain: {signature.uncertain} (line {signature.uncertain_line})"
        return
    expected = dict(_leaves(program.parser, ()))
    read = {tuple(name.split(".")): one for name, one in signature.commands.items()}
    if signature.interface.input_schema is not None:
        read[()] = signature.interface
    if expected.keys() - {()} != read.keys() - {()}:
        yield f"sub-commands {sorted(expected)} read as {sorted(read)}"
    for path in expected.keys() & read.keys():
        for difference in _interface_differences(expected[path], read[path]):
            yield f"{' '.join(path)}: {difference}"


def _leaves(
    parser: dict[str, Any], path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], list[dict[str, Any]]]]:
    own = parser["arguments"]
    if not parser["commands"] or own:
        yield path, own
    for name, inner in parser["commands"].items():
        for leaf, arguments in _leaves(inner, (*path, name)):
            taken = {argument["dest"] for argument in arguments}
            yield leaf, [one for one in own if one["dest"] not in taken] + arguments


def _interface_differences(expected: list[dict[str, Any]], interface: Interface) -> Iterator[str]:
    schema = interface.input_schema or {}
    plan = [part for part in interface.plan or () if isinstance(part, ArgvArgument)]
    for argument in plan:
        real = next((one for one in expected if _is_same(argument, one)), None)
        if real is None:
            yield f"{argument.name} does not exist"
        else:
            yield from _argument_differences(argument, real, schema, expected)
    for one in _that_can_be_given(expected):
        if not any(_covers(argument, one) for argument in plan):
            yield f"{one['flags'] or one['dest']} was not read"


def _that_can_be_given(expected: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the arguments but those after a list that argparse gives all words to."""
    takes_all = False
    for one in expected:
        if one["flags"]:
            yield one
        else:
            if not takes_all or one["nargs"] not in ("?", "*"):
                yield one
            takes_all = takes_all or one["nargs"] in ("*", "+", "...")


def _is_same(argument: ArgvArgument, real: dict[str, Any]) -> bool:
    if argument.flag is None:
        return not real["flags"] and bool(real["dest"] == argument.name)
    return argument.flag in real["flags"]


def _covers(argument: ArgvArgument, real: dict[str, Any]) -> bool:
    return _is_same(argument, real) or argument.off_flag in real["flags"]


def _argument_differences(
    argument: ArgvArgument, real: dict[str, Any], schema: JsonSchema, expected: list[dict[str, Any]]
) -> Iterator[str]:
    own = schema["properties"][argument.name]
    is_shared = [one["dest"] for one in expected].count(real["dest"]) > 1
    if argument.name != real["dest"] and not is_shared:
        yield f"{real['dest']} is called {argument.name}"
    action = ACTIONS.get(real["action"], "store" if real["nargs"] != 0 else "store_true")
    if not real["flags"] and action in ("append", "extend"):
        action = "store"  # it occurs once
    if argument.action != action and not (is_shared and argument.off_flag):
        yield f"{argument.name}: {action} read as {argument.action}"
    nargs = {0: None, "A...": "+"}.get(real["nargs"], real["nargs"])
    if argument.nargs != nargs:
        yield f"{argument.name}: nargs {nargs} read as {argument.nargs}"
    required = (real["required"] and nargs not in ("?", "*", "...")) or _must(real)
    if (argument.name in schema.get("required", ())) != required:
        yield f"{argument.name}: required is {required}"
    yield from _value_differences(argument, real, own)


def _must(real: dict[str, Any]) -> bool:
    return not real["flags"] and real["nargs"] not in ("?", "*", "...")


def _value_differences(
    argument: ArgvArgument, real: dict[str, Any], own: JsonSchema
) -> Iterator[str]:
    if argument.action not in ("store", "append", "extend"):
        return
    while own["type"] == "array":
        own = own["items"]
    kind = {"int": "integer", "float": "number"}.get(real["type"], "string")
    if own["type"] != kind:
        yield f"{argument.name}: {kind} read as {own['type']}"
    choices = own.get("enum")
    if choices is None and "minimum" in own:
        choices = list(range(own["minimum"], own["maximum"] + 1))
    if real["choices"] == "unknown":
        return
    # No caller can pass None, and a choice that is a number is still written as text.
    possible = [choice for choice in real["choices"] or () if choice is not None]
    if own["type"] == "string":
        possible = sorted(map(str, possible))
        choices = sorted(choices) if choices else choices
    if (possible or None) != choices:
        yield f"{argument.name}: choices {real['choices']} read as {choices}"


def _all_arguments(parser: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from parser["arguments"]
    for inner in parser["commands"].values():
        yield from _all_arguments(inner)


def _literal_lines(text: str) -> set[int]:
    """Return the lines on which a call of `add_argument` has all its names in sight."""
    lines: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            names = [isinstance(one, ast.Constant) for one in node.args]
            settings = {keyword.arg: keyword.value for keyword in node.keywords}
            computed = [
                key
                for key, value in settings.items()
                if key is None or (key in ("nargs", "dest") and not _in_sight(value))
            ]
            if node.func.attr == "add_argument" and all(names) and not computed:
                lines.update(range(node.lineno, (node.end_lineno or 0) + 1))
    return lines


def _in_sight(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant | ast.Attribute)
