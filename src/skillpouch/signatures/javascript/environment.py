"""What a JavaScript program takes from its surroundings: variables, words, answers of a person."""

from collections.abc import Iterator

from skillpouch.signatures.javascript.parse_args_options import UTIL, parse_args_calls
from skillpouch.signatures.javascript.patterns import read_pattern
from skillpouch.signatures.javascript.tokens import Code
from skillpouch.signatures.javascript.values import text_of
from skillpouch.signatures.standard_variables import is_standard

_DOTS = frozenset({".", "?."})
_ASSIGNS = frozenset({"=", "??=", "||=", "+="})
_PROCESS = frozenset({"process", "node:process"})
# They read the words of the command line themselves.
COMMAND_LINE_PACKAGES = frozenset(
    [
        "commander",
        "yargs",
        "yargs/yargs",
        "minimist",
        "meow",
        "arg",
        "cac",
        "sade",
        "mri",
        "getopts",
        "command-line-args",
        "@oclif/core",
        "clipanion",
        "citty",
    ]
)
_PROMPT_PACKAGES = frozenset(
    ["inquirer", "@inquirer/prompts", "prompts", "enquirer", "@clack/prompts"]
)
_LINE_PACKAGES = frozenset(
    ["readline", "node:readline", "readline/promises", "node:readline/promises"]
)


def variables_read(code: Code) -> tuple[str, ...]:
    """`process.env.X`, `process.env["X"]`, `const { X } = process.env`, `Deno.env.get("X")`."""
    names: set[str] = set()
    for position in code.find("process", "Bun"):
        if _member_of(code, position) == "env":
            names.update(_names_at(code, position))
    for position in code.find("Deno"):
        if code.texts(position + 1, 5) == (".", "env", ".", "get", "("):
            names.add(text_of(code[position + 6]))
    return tuple(sorted(name for name in names if name.isidentifier() and not is_standard(name)))


def _member_of(code: Code, position: int) -> str:
    """The name after the dot; "" when this is itself a member of something else."""
    is_owner = code[position + 1].text in _DOTS and code[position - 1].text not in _DOTS
    return code[position + 2].text if is_owner else ""


def _names_at(code: Code, position: int) -> Iterator[str]:
    after = position + 3
    if code[after].text in _DOTS and code[after + 1].text == "[":  # process.env?.["X"]
        after += 1
    name = code[after + 1]
    if code[after].text in _DOTS and name.kind == "name":
        is_read = code[after + 2].text not in _ASSIGNS
    else:
        is_read = code[after].text == "[" and name.kind == "string"
        is_read = is_read and code[after + 3].text not in _ASSIGNS
    if is_read:
        yield text_of(name)
    elif code[position - 1].text == "=" and (opener := code.partners.get(position - 2)) is not None:
        yield from read_pattern(code, opener) or ()


def reads_words(code: Code, modules: frozenset[str]) -> bool:
    """Whether the program looks at its command line."""
    if modules & COMMAND_LINE_PACKAGES:
        return True
    members = {
        _member_of(code, position)
        for position in code.find("process", "Bun", "Deno")
        # The path of the script itself: a module asks whether it is the one that runs.
        if code.texts(position + 3, 3) != ("[", "1", "]")
    }
    calls = bool(modules & UTIL) and bool(parse_args_calls(code))
    imported = bool(modules & _PROCESS and code.find("argv"))  # import { argv } from "process"
    return calls or imported or bool(members & {"argv", "args"})


def asks_questions(code: Code, modules: frozenset[str]) -> bool:
    """Whether a person has to answer while it runs."""
    if modules & _PROMPT_PACKAGES:
        return True
    questions = any(code[position - 1].text in _DOTS for position in code.find("question"))
    return questions and bool(modules & _LINE_PACKAGES)
