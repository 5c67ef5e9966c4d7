"""Signature: what was read from a script, as one value."""

import re
from dataclasses import dataclass, field
from typing import Any, Literal

from skillpouch.signatures.argv import ArgvPlan
from skillpouch.signatures.shebang import Language

JsonSchema = dict[str, Any]

Convention = Literal["handler", "main", "argv", "stdin"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """One way to call a script: the script itself, or one of its sub-commands.

    `input_schema` is None when the types could not be known; `plan` is set for `argv` only.
    """

    convention: Convention
    description: str = ""
    input_schema: JsonSchema | None = None
    plan: ArgvPlan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies:
    """What a PEP 723 block asks for."""

    requires_python: str = ""
    packages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """Everything read from one script, without running it."""

    reader: str  # which reader knew the interface: "argparse", "handler", "jsdoc", "comments" …
    interface: Interface
    commands: dict[str, Interface] = field(default_factory=dict)  # sub-command → its interface
    runs_alone: bool = False  # it has sub-commands, and works without one, too
    uncertain: str = ""  # why the interface is untyped although the script takes arguments
    uncertain_line: int | None = None
    variables: tuple[str, ...] = ()  # environment variables it reads, sorted
    dependencies: Dependencies | None = None
    imports: frozenset[str] = frozenset()  # modules it imports; relative ones start with "."
    has_entry: bool = True  # a main block, `main`, `handler`, or statements that do something
    defines: str = ""  # what it has instead of an entry: "parse, Reader and 3 more"
    defines_line: int | None = None
    takes_nothing: bool = False  # it certainly reads neither its words nor standard input
    reads_lines: bool = False  # of its standard input, and no JSON
    is_submodule: bool = (
        False  # a part of what imports it: imports relatively, or only sets variables
    )
    is_test: bool = False  # imports pytest or unittest
    reads_input: bool = False  # asks a person a question (`input()`, `read -p`)

    @property
    def is_untyped(self) -> bool:
        """Whether nothing is known of what it takes: it gets any JSON on standard input."""
        return self.interface.convention == "stdin" and self.interface.input_schema is None


def says_only_which(rules: Any) -> bool:
    """Tell whether rules of a schema are only about which of several arguments must be given."""
    return isinstance(rules, list) and all(
        isinstance(each, dict)
        and (each.keys() <= {"required", "properties"} or says_only_which(each.get("anyOf")))
        for each in rules
    )


# Set by the shell, by the login, by a language's own tools or by Skillpouch itself.
_STANDARD = frozenset(
    {
        *("CDPATH", "COLUMNS", "DIRSTACK", "EDITOR", "EPOCHSECONDS", "EUID", "FUNCNAME", "GROUPS"),
        *("HOME", "HOSTNAME", "HOSTTYPE", "IFS", "LANG", "LANGUAGE", "LINENO", "LINES", "LOGNAME"),
        *("MACHTYPE", "MAPFILE", "OLDPWD", "OPTARG", "OPTERR", "OPTIND", "OSTYPE", "PATH", "PPID"),
        *("PIPESTATUS", "PS1", "PS2", "PS3", "PS4", "PWD", "RANDOM", "REPLY", "SECONDS", "SHELL"),
        *("SHELLOPTS", "SHLVL", "SRANDOM", "TERM", "TMPDIR", "UID", "USER", "USERNAME"),
        *("NODE_ENV", "TEMP", "TMP", "USERPROFILE"),
    }
)


def is_standard(name: str) -> bool:
    """Tell whether a variable is a standard one, for which no skill needs a grant."""
    return name in _STANDARD or name.startswith(("BASH", "LC_"))


LONGEST_DESCRIPTION = 256

# "=====", "# ----", "*****": lines around a title, never part of it.
_RULE = re.compile(r"^[\W_]{3,}$")
_USAGE = re.compile(r"(?:^|\s)usage:\s", re.IGNORECASE)


def first_paragraph(text: str) -> str:
    """Join the lines up to the first empty one; cut at 256 characters."""
    lines: list[str] = []
    for line in text.strip().splitlines():
        stripped = line.strip()
        is_rule = _RULE.match(stripped) is not None
        if lines and (is_rule or not stripped):
            break  # a rule below a title ends it, like a blank line
        if stripped and not is_rule:
            lines.append(stripped)
    text = " ".join(" ".join(lines).split())
    described = _USAGE.split(text, maxsplit=1)[0] or text
    return described[:LONGEST_DESCRIPTION].rstrip()


_FROM_FILE = r"/dev/stdin|fd/0\b"
_NODE_INPUT = rf"process\.stdin|readFileSync\(\s*0\b|Deno\.stdin|Bun\.stdin|{_FROM_FILE}"
_READS_INPUT = {
    "python": re.compile(rf"\bsys\.stdin\b|\binput\(|\bgetpass\(|\bfileinput\b|{_FROM_FILE}"),
    # A question, and no loop over a file or a pipe.
    "shell": re.compile(
        r"(?:^|[;&{(]|\b(?:then|do|else))[ \t]*(?:IFS=\S*[ ])?read\b[^\n<|]*$"
        rf"|{_FROM_FILE}|\$\(cat\)",
        re.MULTILINE,
    ),
    "javascript": re.compile(_NODE_INPUT),
    "typescript": re.compile(_NODE_INPUT),
    "ruby": re.compile(rf"\bgets\b|STDIN|\$stdin|ARGF|{_FROM_FILE}"),
    "perl": re.compile(rf"<STDIN>|<>|{_FROM_FILE}"),
}
_LOOP = re.compile(r"(?:^|;)[ \t]*while[ \t]+(?:IFS=\S*[ ])?read\b", re.MULTILINE)
_LOOP_OVER_FILE = re.compile(r"\bdone[ \t]*<")
_REMARK = re.compile(r"^[ \t]*(?:#|//|\*).*$", re.MULTILINE)


def reads_input(text: str, language: Language) -> bool:
    """Tell whether a script asks for standard input itself; what it imports does not count."""
    code = _REMARK.sub("", text)
    if language == "shell" and _LOOP.search(code) and not _LOOP_OVER_FILE.search(code):
        return True
    return _READS_INPUT[language].search(code) is not None
