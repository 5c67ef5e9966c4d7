"""The arguments of a script that takes each by its number: `source = sys.argv[1]`."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from skillpouch.signatures.argument_list import Planned
from skillpouch.signatures.argv import Argument
from skillpouch.signatures.python.argv_reads import ArgvReads, Taken, argv_reads
from skillpouch.signatures.python.outline import Outline
from skillpouch.signatures.signature import JsonSchema

_MOST = 20
_USAGE_WORD = re.compile(r"<[^<>]{1,60}>|\[[^\[\]]{1,60}\]|\S+")
_NUMBERS = {"int": "integer", "float": "number"}


@dataclass(slots=True)
class _Seen:
    """What the reads of one argument tell together."""

    name: str = ""
    kind: str = "string"
    default: str = ""
    guarded: list[int] = field(default_factory=list)


def read_argv_positionals(outline: Outline, usage: str) -> list[Planned] | None:
    """One argument for each of `sys.argv[1]`, `[2]` …; None unless that is all there is."""
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
        # A word cannot be left out before one that is needed.
        required = required or number < reads.fewest or 0 in seen[number].guarded
        argument = Argument(name=names[number - 1], nargs=None if required else "?")
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
    """`convert(sys.argv[1])`: the name that the function itself has for it."""
    node = outline.functions.get(taken.callee)
    parameters = [*node.args.posonlyargs, *node.args.args] if node else []
    return parameters[taken.position].arg if taken.position < len(parameters) else ""


def _names(seen: dict[int, _Seen], usage: str) -> list[str]:
    """The name of each argument in order; none at all when one of them is unknown."""
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
    """Whether it is only read when later ones are there, too: then nobody knows what it needs."""
    if number < reads.fewest or 0 in seen.guarded:
        return False
    return any(least > number + 1 for least in seen.guarded)


def _schema(seen: _Seen, required: bool) -> JsonSchema:
    schema: JsonSchema = {"type": seen.kind}
    if seen.default and not required and seen.kind == "string":
        schema["default"] = seen.default
    return schema
