"""One `add_argument` call, read by the rules argparse itself follows."""

from dataclasses import dataclass
from typing import Any, Literal

from skillpouch.signatures.argv import Action
from skillpouch.signatures.python.argparse_actions import read_action
from skillpouch.signatures.python.calls import Call
from skillpouch.signatures.python.values import UNKNOWN, Reference, UncertainError

Kind = Literal["string", "integer", "number"]
Nargs = int | Literal["?", "*", "+", "..."] | None

SUPPRESS = "==SUPPRESS=="

_NARGS: dict[Any, Nargs] = {
    None: None,
    "?": "?",
    "*": "*",
    "+": "+",
    "...": "...",
    "argparse.OPTIONAL": "?",
    "argparse.ZERO_OR_MORE": "*",
    "argparse.ONE_OR_MORE": "+",
    "argparse.REMAINDER": "...",
}
# Text that one of these types takes can be checked before the script runs; whatever any other
# callable accepts is known to that callable alone.
_KINDS: dict[str, Kind] = {"int": "integer", "float": "number"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Declared:
    """An argument as the script declares it; `flags` is empty for a positional."""

    dest: str
    line: int
    flags: tuple[str, ...] = ()
    action: Action = "store"
    nargs: Nargs = None
    kind: Kind = "string"
    choices: Any = None
    default: Any = None
    const: Any = None
    required: bool = False
    help: str = ""
    type: Any = None

    @property
    def flag(self) -> str | None:
        """The flag a command line is written with: the first long one, else the first."""
        return next(filter(_is_long, self.flags), self.flags[0]) if self.flags else None

    @property
    def keys(self) -> tuple[str, ...]:
        """What no other argument of its parser can have, too."""
        return self.flags or (self.dest,)


def declare(call: Call, prefix_chars: str) -> Declared | None:
    """Return the argument a call declares, None for one that only prints (help, version)."""
    if not call.complete:
        raise UncertainError(
            "an argument is declared with values known only at run time", call.line
        )
    action, nargs = read_action(call)
    if action == "help" or action == "version":  # noqa: PLR1714 - narrows the type
        return None
    flags = _flags(call, prefix_chars)
    if not flags and action in ("append", "extend"):
        action = "store"  # a positional occurs once
    kind = call.get("type", None)
    return Declared(
        dest=_dest(call, flags, prefix_chars),
        line=call.line,
        flags=flags,
        action=action,
        nargs=_nargs(nargs, call.line),
        kind=_KINDS.get(kind.name, "string") if isinstance(kind, Reference) else "string",
        choices=call.get("choices", None),
        default=_constant(call.get("default", None)),
        const=call.get("const", None),
        required=call.is_set("required"),
        help=call.text("help"),
        type=kind,
    )


def _flags(call: Call, prefix_chars: str) -> tuple[str, ...]:
    names = call.arguments
    if not all(isinstance(name, str) and name for name in names):
        raise UncertainError("the name of an argument is computed at run time", call.line)
    dashed = [name[0] in prefix_chars for name in names]
    if all(dashed):
        return tuple(names)
    if len(names) > 1:
        raise UncertainError("an argument mixes flags and plain names", call.line)
    return ()


def _dest(call: Call, flags: tuple[str, ...], prefix_chars: str) -> str:
    if not flags and call.arguments:
        return str(call.arguments[0])
    if dest := call.text("dest"):
        return dest
    if not flags:
        raise UncertainError("an argument has no name", call.line)
    long = [flag for flag in flags if len(flag) > 1 and flag[1] in prefix_chars]
    return (long or flags)[0].lstrip(prefix_chars).replace("-", "_")


def _nargs(value: Any, line: int) -> Nargs:
    if isinstance(value, Reference):
        value = value.name
    # A sub-command and its words, when a script asks for them without sub-parsers.
    if value in ("A...", "argparse.PARSER"):
        return "+"
    if type(value) is int and value > 0:
        return value
    if value is UNKNOWN or isinstance(value, list | dict) or value not in _NARGS:
        raise UncertainError("the number of values of an argument is computed at run time", line)
    return _NARGS[value]


def _constant(value: Any) -> Any:
    return SUPPRESS if value == Reference("argparse.SUPPRESS") else value


def _is_long(flag: str) -> bool:
    return len(flag) > 2 and flag[0] == flag[1]  # noqa: PLR2004 - `--` and a letter
