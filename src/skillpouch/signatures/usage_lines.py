"""Reads usage lines, which people write by hand: what they run, and with which words."""

import re
import shlex
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from skillpouch.signatures.argv import ArgvArgument, ArgvPlan, FixedWord
from skillpouch.signatures.shebang import language_of
from skillpouch.signatures.signature import Interface, JsonSchema

Command = tuple[str, ...]  # the words that choose a sub-command

_MOST_LINES = 5
_LONGEST_LINE = 400
_LONGEST_BODY = 500_000
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*([^\s`]*)")
_SHELLS = frozenset({"", "bash", "sh", "shell", "zsh", "console", "terminal", "shell-session"})
_CODE_SPAN = re.compile(r"`([^`\n]{3,600})`")
_PROMPT = re.compile(r"^[$%>][ \t]+")
_QUOTING = "\"'`(){}[]$"
_RUNNERS = frozenset(
    {
        *("python", "python3", "node", "bash", "sh", "zsh", "ruby", "perl", "bun", "deno", "tsx"),
        *("uv", "uvx", "npx", "pnpm", "poetry", "pipenv", "source", "exec"),
    }
)
_BEFORE_COMMAND = frozenset({"sudo", "time", "env", "then", "do", "else", "!"})
_OPERATORS = frozenset({"|", "||", "&&", ";", "&"})
_REDIRECTIONS = ("<", ">", "2>", "&>", "#")
_ASKS_FOR_TEXT = frozenset({"--help", "--version"})


def usage_lines(
    body: str, script: str, commands: Collection[Command] = (), command: Command = ()
) -> tuple[str, ...]:
    """The commands that run this script (`scripts/extract.py`), as they are shown, each once.

    Of a script with sub-commands, given by their words, only the lines that show `command`.
    """
    base = script.rpartition("/")[2]
    shown = [(line, is_span) for line, is_span in _shown(body) if base in line]
    names = _Names("\n".join(line for line, _ in shown), script)
    found: dict[str, None] = {}
    for line, is_span in shown:
        if len(found) == _MOST_LINES:
            break
        words = line.split()
        position = names.position(words)
        if position is None or (is_span and len(words) == 1):
            continue
        if not commands or _command_of(words[position + 1 :], commands) == command:
            found[line[:_LONGEST_LINE]] = None
    return tuple(found)


def command_words(plan: ArgvPlan | None) -> Command:
    """Return the words that choose a sub-command: `("db", "add")`; none without one."""
    return tuple(part.text for part in plan or () if isinstance(part, FixedWord))


def _command_of(words: list[str], commands: Collection[Command]) -> Command:
    """Return the words of the sub-command that a command line shows.

    The words of one may have options between them: `--quiet db --file x add`.
    """
    found: Command = ()
    for word in _arguments(words):
        longer = (*found, word.strip(_QUOTING))
        if any(command[: len(longer)] == longer for command in commands):
            found = longer
    return found


def run_words(body: str) -> Iterator[tuple[str, str]]:
    """Yield each path of a script that a shown command runs, and the words that show it.

    `python tools/x.py --in a` gives `tools/x.py` and `python tools/x.py`.
    """
    for line, is_span in _shown(body):
        words = line.split()
        begin, ran = 0, False
        for position, word in enumerate(words):
            if word in _OPERATORS or word.endswith(";"):
                begin, ran = position + 1, False
            elif not ran and language_of(word.strip(_QUOTING)) is not None:
                ran = True  # the words after it are its arguments
                if _is_run(words[begin : position + 1]) and not (is_span and len(words) == 1):
                    yield word.strip("\"'`()"), " ".join(words[begin : position + 1])


def _is_run(words: list[str]) -> bool:
    """Tell whether the last word is started, not only sourced or listed."""
    first = words[0].strip(_QUOTING)
    if len(words) == 1:
        # A name alone may be a line of a list of files.
        return not words[0].lstrip("\"'")[:1].isalnum()
    return first not in {"source", "."} and _runs(words)


@lru_cache(maxsize=2)
def _shown(body: str) -> tuple[tuple[str, bool], ...]:
    """Return the commands that one body shows; cached for all scripts of its skill."""
    return tuple(_commands(body[:_LONGEST_BODY]))


def usage_fits(line: str, plan: ArgvPlan, script: str) -> str:
    """Return what in a usage line differs from the plan; "" if it fits or that is unclear.

    Only long flags are compared: a plan has one flag for each argument, without abbreviations.
    """
    try:
        words = shlex.split(line)
    except ValueError:  # a quote that is never closed
        return ""
    position = _Names("", script).position(words)
    if position is None or _takes_anything(plan):
        return ""
    given = list(_arguments(words[position + 1 :]))
    if any(isinstance(part, FixedWord) and part.text not in given for part in plan):
        return ""  # the line shows another sub-command
    known = _flags(plan)
    for word in given:
        flag = word.strip("[]").partition("=")[0]
        is_known = any(each.startswith(flag) for each in known) or flag in _ASKS_FOR_TEXT
        if flag.startswith("--") and len(flag) > len("--") and not is_known:
            return f"SKILL.md shows the flag {flag}, which the script does not have"
    return ""


class _Names:
    """The ways to write the path of one script."""

    def __init__(self, body: str, script: str) -> None:
        self.script = script
        folder, _, base = f"./{script}".rpartition("/")
        parent = folder.rpartition("/")[2]
        others = re.findall(rf"(?<![\w.-])([\w.-]++)/{re.escape(base)}\b", body)
        # `python extract.py` could otherwise mean a namesake in another folder.
        self.is_unique = set(others) <= {parent, "."}

    def position(self, words: list[str]) -> int | None:
        """Return the position of the script among the words of a command that runs it."""
        begin = 0
        for position, word in enumerate(words):
            if word in _OPERATORS or word.endswith(";"):
                begin = position + 1
            elif self._means_script(word) and _runs(words[begin : position + 1]):
                return position
        return None

    def _means_script(self, word: str) -> bool:
        path = word.strip(_QUOTING).removeprefix("./")
        if path == self.script or path.endswith(f"/{self.script}"):
            return True
        return self.is_unique and bool(path) and self.script.endswith(f"/{path}")


def _runs(words: list[str]) -> bool:
    """Tell whether the command runs the last word, and does not just copy or show this file."""
    rest = [word for word in words if word not in _BEFORE_COMMAND and not _is_assignment(word)]
    command = rest[0].strip(_QUOTING).rpartition("/")[2].lower() if rest else ""
    return len(rest) == 1 or re.sub(r"[\d.]+$", "", command) in _RUNNERS or command in _RUNNERS


def _is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isidentifier()


def _commands(body: str) -> Iterator[tuple[str, bool]]:
    """Yield each line of a shell block, continued ones joined, and each code span of the text."""
    fence, is_shell, unfinished = "", False, ""
    for raw in body.split("\n"):
        line = raw.strip()
        opener = _FENCE.match(raw)
        if opener and (not fence or (line.startswith(fence) and not opener.group(2))):
            is_shell = not fence and opener.group(2).lower() in _SHELLS
            fence, unfinished = "" if fence else opener.group(1), ""
        elif not fence:
            yield from ((span.strip(), True) for span in _CODE_SPAN.findall(raw))
        elif is_shell and not line.startswith("#"):
            command = f"{unfinished} {line}" if unfinished else _PROMPT.sub("", line)
            goes_on = command.endswith("\\")
            unfinished = command[:-1].rstrip()[:_LONGEST_LINE] if goes_on else ""
            if not goes_on:
                yield command, False


def _arguments(words: list[str]) -> Iterator[str]:
    """The words up to the end of this command."""
    for word in words:
        if word in _OPERATORS or word == "--" or word.startswith(_REDIRECTIONS):
            return
        yield word.rstrip(";")


def _takes_anything(plan: ArgvPlan) -> bool:
    return any(
        isinstance(part, ArgvArgument)
        and part.flag is None
        and (part.nargs == "..." or (part.nargs == "*" and not part.after_dashes))
        for part in plan
    )


def _flags(plan: ArgvPlan) -> set[str]:
    arguments = [part for part in plan if isinstance(part, ArgvArgument)]
    return {flag for part in arguments for flag in (part.flag, part.off_flag) if flag}


_LONGEST = 200
_USAGE = re.compile(r"\busage:[ \t]*+(?:(?:\\n|\n)[ \t#*/]*+)?([^\n]{1,400})", re.IGNORECASE)
# Expressions for the running script's own name, in several languages.
_ITSELF = re.compile(
    r"\$\(basename [\"']?\$\{?(?:0|BASH_SOURCE\[0\])\}?[\"']?\)|`basename [\"']?\$0[\"']?`"
    r"|\$\{?0(?:##\*/)?\}?|\{(?:os\.path\.basename\()?sys\.argv\[0\]\)?\}|\{Path\(__file__\)\.name\}"
    r"|\$\{process\.argv\[1\]\}|#\{\$(?:0|PROGRAM_NAME)\}|%s|%prog|\{__file__\}"
)
_QUOTES = "\"'`"
_ENDS = re.compile(r"\\n|\*/")


def own_usage(text: str, filename: str = "") -> str:
    """Return the text after the first `Usage:` of a script, on one line; "" without one."""
    match = _USAGE.search(text)
    if match is None:
        return ""
    line = _ITSELF.sub(lambda _: filename or "script", match.group(1))
    opened = text[text.rfind("\n", 0, match.start()) + 1 : match.start()].strip()[-1:]
    quote = opened if opened and opened in _QUOTES else ""
    line = line.partition(quote)[0] if quote else re.sub(r"(?:\"\"\"|''').*", "", line)
    return " ".join(_ENDS.split(line)[0].strip("` \t").split())[:_LONGEST].rstrip()


# A flag in a list of options: at the start of a line, and two spaces before what it means.
_LISTED_FLAG = re.compile(
    r"^[\s\"'`+#*/]*+(?:[\w.]+\([\"'`])?\s*+(?:-\w,?\s+)?(--[A-Za-z][\w-]*+)"
    r"(?:[ =](?:<[^<>\n]*>|\[[^\[\]\n]*\]|[A-Z][A-Z_]*+))?(?:\s{2,}|\t)\S",
    re.MULTILINE,
)


def listed_flags(text: str) -> frozenset[str]:
    """Return the flags that a script lists where it says how it is used."""
    return frozenset(_LISTED_FLAG.findall(text))


class Planned(NamedTuple):
    """An argument of a command line with the schema of its value."""

    argument: ArgvArgument
    schema: JsonSchema
    required: bool = False


def argument_list(description: str, usage: str = "") -> Interface:
    """Return the interface of a script with unknown arguments: any number of words.

    `usage` is the script's own usage line, which becomes the description of the words.
    """
    words: JsonSchema = {"type": "array", "items": {"type": "string"}}
    if usage:
        words["description"] = f"Command-line arguments; usage: {usage}"
    return planned(description, [Planned(ArgvArgument(name="args", nargs="*"), words)])


def planned(description: str, arguments: Iterable[Planned]) -> Interface:
    """Return the interface of a script whose arguments are all known."""
    known = list(arguments)
    schema: JsonSchema = {
        **object_schema(
            {each.argument.name: each.schema for each in known},
            [each.argument.name for each in known if each.required],
        ),
        "additionalProperties": False,
    }
    if dependent := _needed_before(known):
        schema["dependentRequired"] = dependent
    plan = tuple(each.argument for each in known)
    return Interface(convention="argv", description=description, input_schema=schema, plan=plan)


def _needed_before(known: Iterable[Planned]) -> dict[str, list[str]]:
    """Return the positionals that must be given with a later one, which takes their place else."""
    needed: dict[str, list[str]] = {}
    before: list[str] = []
    for each in known:
        argument = each.argument
        if argument.flag is None and not each.required:
            if before:
                needed[argument.name] = list(before)
            if argument.nargs == "?" and not argument.skippable and "default" not in each.schema:
                before.append(argument.name)
    return needed


def said_when_false(flag: str, text: str) -> str:
    """Return the description of a switch that is on until its flag is passed, as for `--no-cache`.

    The text of the flag says what happens with it, so it is about the value false.
    """
    return f"false passes {flag}: {text}" if text else f"false passes {flag}"


def object_schema(properties: dict[str, JsonSchema], required: list[str]) -> JsonSchema:
    """Return the schema of an object; `required` is left out if nothing is required."""
    schema: JsonSchema = {"type": "object", "properties": properties}
    return {**schema, "required": required} if required else schema
