"""Which property stands for which argument, when several arguments write to one name."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from skillpouch.signatures.argv import Argument
from skillpouch.signatures.python.argparse_arguments import Declared
from skillpouch.signatures.python.argparse_parsers import Parser
from skillpouch.signatures.python.argparse_properties import property_schema
from skillpouch.signatures.python.command_tree import Parameter


@dataclass(frozen=True, slots=True, kw_only=True)
class Named(Parameter):
    """A property, and the arguments it stands for: one, or a switch and its opposite."""

    declared: tuple[Declared, ...]


def name_arguments(parser: Parser) -> list[Named]:
    """Name each argument by its `dest`; by its own flag where a `dest` is shared."""
    shared: dict[str, list[Declared]] = defaultdict(list)
    for declared in parser.arguments:
        shared[declared.dest].append(declared)
    named: dict[str, Named] = {}
    for declared in parser.arguments:
        together = shared[declared.dest]
        if len(together) > 1 and _are_opposites(together):
            if declared is together[0]:
                named[declared.dest] = _opposites(together, parser)
            continue
        name = declared.dest if len(together) == 1 else _own_name(declared, parser.prefix_chars)
        name = _free(name, named)
        named[name] = _named(name, declared, parser)
    return list(named.values())


def _named(name: str, declared: Declared, parser: Parser) -> Named:
    default = declared.default
    if default is None and declared.action == "store_false":
        default = True
    return Named(
        name=name,
        declared=(declared,),
        argument=Argument(
            name=name,
            flag=declared.flag,
            action=declared.action,
            nargs=declared.nargs,
            off_flag=_off_flag(declared),
            after_dashes=not declared.flags,
        ),
        schema=property_schema(declared, parser.defaults.get(declared.dest, default), parser.prog),
        required=_is_required(declared),
    )


def _is_required(declared: Declared) -> bool:
    if declared.flags:
        return declared.required
    return declared.nargs not in ("?", "*", "...")


def _are_opposites(together: Iterable[Declared]) -> bool:
    return sorted(declared.action for declared in together) == ["store_false", "store_true"]


def _opposites(together: list[Declared], parser: Parser) -> Named:
    on, off = sorted(together, key=lambda declared: declared.action, reverse=True)
    default = parser.defaults.get(on.dest, on.default if on.default is not None else off.default)
    schema = property_schema(on, None, parser.prog)
    if isinstance(default, bool):
        schema["default"] = default
    return Named(
        name=on.dest,
        declared=(on, off),
        argument=Argument(name=on.dest, flag=on.flag, action="boolean_optional", off_flag=off.flag),
        schema=schema,
    )


def _off_flag(declared: Declared) -> str | None:
    if declared.action != "boolean_optional" or not declared.flag:
        return None
    return f"--no-{declared.flag[2:]}" if declared.flag.startswith("--") else None


def _own_name(declared: Declared, prefix_chars: str) -> str:
    if not declared.flag:
        return declared.dest
    return declared.flag.lstrip(prefix_chars).replace("-", "_")


def _free(name: str, taken: Iterable[str]) -> str:
    count = 2
    free = name
    while free in taken:
        free = f"{name}_{count}"
        count += 1
    return free
