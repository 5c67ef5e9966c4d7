"""`run_for_skill`: a command in the workspace, confined like `bash`, that finds one skill, too."""

import os
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from skillpouch.backends.delivery import (
    base_variables,
    exchange_folder,
    importable,
    process_folder,
    python_variables,
    skill_variables,
)
from skillpouch.backends.program_results import result_of
from skillpouch.backends.programs import confinement_of
from skillpouch.builtins.disclosure.activation import plugin_root
from skillpouch.builtins.workspace.bash import bash_of, check_line, real_folder, with_limits
from skillpouch.builtins.workspace.context import Definition, number, text
from skillpouch.calls import ToolCall
from skillpouch.declarations.packages.declared_files import InstallError
from skillpouch.declarations.skill_md import is_bash
from skillpouch.discovery.skill_copies import SkillCopy
from skillpouch.errors import SkillNotFoundError
from skillpouch.execution.command import Command
from skillpouch.execution.engine import run_command
from skillpouch.execution.zygote_client import this_python
from skillpouch.limits import BASH_SECONDS
from skillpouch.policy.package_hints import files_named
from skillpouch.provision.interpreters import find_program, homes_of
from skillpouch.provision.packages.lookup import environments_in_use, other_python
from skillpouch.provision.packages.ready import Environment
from skillpouch.provision.readiness import ANSWERED
from skillpouch.registry.registry import ToolOverlay
from skillpouch.results import ToolResult
from skillpouch.runtime.memoize import Shared
from skillpouch.signatures.invocation import names_skill_folder
from skillpouch.skills import Skill
from skillpouch.tools import Script, Tool
from skillpouch.workspace.workspace import look_at

DEFINITION = Definition(
    name="run_for_skill",
    description=(
        "Run a bash command that the instructions of a skill ask for, in the workspace and "
        "confined like `bash`. It finds the files, packages and variables of this skill: "
        "`python scripts/x.py in.csv` runs a script of the skill on a file of the workspace."
    ),
    parameters={
        "skill": text("the skill whose instructions are followed"),
        "command": text("what to run, as the instructions write it"),
        "timeout": number("milliseconds until it is ended", maximum=3_600_000),
        "cwd": text("the folder for this command"),
        "max_output": number("bytes of output to keep, from head and tail", minimum=1000),
    },
    required=("skill", "command"),
    effects=("read", "write", "execute"),
    timeout_seconds=BASH_SECONDS,
)

FindSkill = Callable[[str], tuple[Skill, SkillCopy | None]]

_TEMPLATE = re.compile(
    r"(?<!\$)\{+ ?[A-Za-z][\w -]*\}+|<[A-Za-z][\w -]*>|(?<![\w$./{<-])[A-Z][A-Z_]{3,}(?=/)"
)
_VARIABLE = re.compile(r"\$\{?([A-Za-z_]\w*)")
_SAFE = re.compile(r"[\w./+@,:%-]+\Z", re.ASCII)
_PATH = re.compile(r"(?:[\w.+@-]+/)*[\w.+@-]+", re.ASCII)
_IN_ENVIRONMENT = re.compile(
    r"((?:[\w.+@-]+/)+)((?:bin|Scripts)/(?:(python|pip)[\d.]*(?:\.exe)?|activate))(?![\w./-])",
    re.ASCII,
)
_PROGRAM = re.compile(r"[a-z0-9]+")
_TEXT = Path(__file__).with_name("skill_shell.bash")
# The functions, then the names of this command, then the command, which errors of bash quote alone.
_RUN = '. "$1"; eval "$2"; skillpouch=$3; shift 3; eval "$skillpouch"'
_ALSO_HOME = ("SKILL_DIR", "CLAUDE_SKILL_DIR")
_INTERPRETERS = ("bash", "sh", "zsh", "node", "ruby", "perl", "bun", "deno")
_ANSWERED = (*ANSWERED, "npx", "bunx", "tsx", "ts-node")
# Programs that read the files they are given, and what else they are given (`skillpouch_read`).
_READERS = {
    **dict.fromkeys(("cat", "tac", "head", "tail", "less", "more", "nl", "wc", "sort"), "files"),
    **dict.fromkeys(("uniq", "cut", "paste", "column", "diff", "cmp", "comm", "ls"), "files"),
    **dict.fromkeys(("tree", "file", "stat", "du", "od", "xxd", "strings", "base64"), "files"),
    **dict.fromkeys(("find", "md5sum", "sha256sum"), "files"),
    **dict.fromkeys(("grep", "egrep", "fgrep", "rg", "jq", "yq", "sed", "awk"), "text"),
    "cp": "copy",
}
# Installers that are called nevertheless end at once, instead of trying to reach a registry.
_OFFLINE = {"PIP_NO_INDEX": "1", "UV_OFFLINE": "1", "NPM_CONFIG_OFFLINE": "true"}


class SkillCommands(Shared):
    """Makes of a call of the tool one for the skill that it names."""

    def __init__(self, find: FindSkill) -> None:
        self._find = find

    def bind(self, tool: Tool, arguments: dict[str, Any]) -> tuple[Tool, dict[str, Any]]:
        """Return the tool with the folder of its skill, and the command as bash will get it.

        From here on the call is judged like a call of `bash`: by rules that refuse commands of
        `bash`, and by the grants and the `allowed-tools` of this skill.
        """
        skill, copy = self._find(arguments["skill"])
        allowed = skill.metadata.allowed
        is_forbidden = allowed is not None and not any(map(is_bash, allowed))
        bound = replace(
            tool,
            name="bash",  # rules that refuse know a tool by this name, too
            skill=skill.name,
            home=str(skill.home),
            version=skill.metadata.version or "",
            allowed_tools=allowed if is_forbidden else None,
        )
        bound = bound if copy is None else copy.holds(bound)
        command = with_folder(arguments["command"], bound.home)
        return bound, {**arguments, "skill": skill.name, "command": command}


def finder_of(source: object) -> FindSkill | None:
    """Return what finds a skill by its name in a source of tools, None if it knows no skills."""
    find: FindSkill | None = getattr(source, "skill_named", None)
    if find is None and isinstance(source, ToolOverlay):
        below = finder_of(source.shared)
        return None if below is None else partial(_visible_skill, source, below)
    return find


def _visible_skill(
    overlay: ToolOverlay, find: FindSkill, name: str
) -> tuple[Skill, SkillCopy | None]:
    if overlay.tools_of(name):
        hint = "it was given as text, and has no folder: call its tools by their names"
        raise SkillNotFoundError(name, hint=hint)
    return find(name)


def with_folder(command: str, home: str) -> str:
    """Return a command with the folder of the skill in place of `{baseDir}` or `<path-to-skill>`.

    Only what is written for people is replaced here; variables are set for the shell.
    """
    folder = home if _SAFE.match(home) else "${SKILL_BASE_DIR}"

    def replaced(found: re.Match[str]) -> str:
        rest = command[found.end() : found.end() + 1]
        return folder if names_skill_folder(found[0], rest) else found[0]

    return _TEMPLATE.sub(replaced, command)


async def run(call: ToolCall) -> ToolResult:
    """Run a command for a skill."""
    call = with_limits(call)
    find = partial(
        environments_in_use,
        call.tool.home,
        packages=call.access.packages,
        builds=call.access.builds,
        skill=call.tool.skill,
        on_progress=call.on_progress,
        sandbox=call.sandbox,
        workspace=call.terms.workspace,
    )
    script, notes = _for_another_python(call), []
    async with AsyncExitStack() as in_use:
        try:
            found = await in_use.enter_async_context(find(script=script))
        except InstallError as error:
            if script is None:
                raise
            # As `python` would, which reads no such declaration.
            told = f"note: {Path(script.file).name} ran on the Python of Skillpouch"
            notes.append(f"{told}: {error.reason}; {error.hint}")
            found = await in_use.enter_async_context(find())
        result = await _run(call, found)
    return result.with_notes(notes) if notes else result


def _for_another_python(call: ToolCall) -> Script | None:
    """Return the first script in a command that declares that it needs another Python than ours."""
    home = call.tool.home
    for name in dict.fromkeys(files_named(call.arguments["command"], home)):
        script = Script(file=f"{home}/{name}", language="python", convention="stdin")
        if name.endswith(".py") and other_python(script, home):
            return script
    return None


async def _run(call: ToolCall, environments: Sequence[Environment]) -> ToolResult:
    command = _command(call, environments)
    visible = [path for each in environments for path in each.visible]
    programs = (*visible, *homes_of(command.argv[0]), *homes_of(this_python()), _shell().parent)
    exchange = exchange_folder(call.tool.place, call.terms.workspace)
    confinement = confinement_of(call, tuple(dict.fromkeys(programs)), exchange)
    before = look_at(call.terms.workspace) if call.writes == "direct" else None
    call.watch.lap("prepare")
    ended = await run_command(command, confinement, call.on_output)
    call.watch.split("run", ended.laps)
    return result_of(call, ended, before=before)


def _command(call: ToolCall, environments: Sequence[Environment]) -> Command:
    line, workspace = check_line(call.arguments["command"]), call.terms.workspace
    names = "\n".join(_names(call, line))
    return Command(
        argv=(
            *(bash_of(call), "--noprofile", "--norc", "-c", _RUN, "bash"),
            *(str(_shell()), names, line),
        ),
        env=_environment(call, line, environments),
        cwd=workspace / real_folder(workspace, call.arguments.get("cwd", ".")),
        stdin=call.stdin or b"",
        limits=call.limits,
        new_filter=call.redactor.stream if call.access.secrets else None,
        unfinished=call.unfinished,
        layers=call.layers,
    )


def _environment(call: ToolCall, line: str, environments: Sequence[Environment]) -> dict[str, str]:
    home = call.tool.home
    found = (
        base_variables(call.access.readable)
        | python_variables()
        | skill_variables(call)
        | importable(home)
    )
    programs = [str(each.programs) for each in environments if each.programs]
    python = next((each.python for each in environments if each.python), this_python())
    if not call.access.hosts:
        found |= _OFFLINE
    for each in environments:
        found |= each.variables
    found |= dict.fromkeys((*_ALSO_HOME, *_folder_variables(line)), home)
    return found | {
        "PATH": ":".join((str(_shell().parent / "bin"), *programs, found["PATH"])),
        "SKILLPOUCH_PYTHON": python,
        "SKILLPOUCH_FOLDER": Path(call.tool.place).name,
        "CLAUDE_PLUGIN_ROOT": str(plugin_root(Path(call.tool.place)) or home),
        **call.access.variables,
    }


def _folder_variables(line: str) -> Iterator[str]:
    """Yield the variables of a command that by their names are the folder of the skill."""
    for name in dict.fromkeys(_VARIABLE.findall(line)):
        if names_skill_folder(f"${{{name}}}"):
            yield name


def _names(call: ToolCall, line: str) -> Iterator[str]:
    """Yield what the shell is told before a command: other paths of the skill, and its scripts."""
    home = call.tool.home
    folders = {Path(call.tool.place).name, call.tool.skill.rpartition(":")[2]}
    known = [] if call.is_unconfined else sorted(filter(_SAFE.match, folders))
    places = list(dict.fromkeys(place for each in known for place in _places(line, each)))
    for place in places:
        yield f'skillpouch_place "{place}"'
    for program in sorted(_READERS.keys() & set(_PROGRAM.findall(line))):
        yield f"skillpouch_reader {program} {_READERS[program]}"
    yield from _environments(line, home, places)
    for target in dict.fromkeys(files_named(line, home)):
        written = {each[0] for each in _PATH.finditer(line) if each[0].endswith(target)}
        names = {target, f"./{target}", *written, *(f"{place}/{target}" for place in places)}
        if _SAFE.match(home):
            names.add(f"{home}/{target}")
        for name in sorted(names):
            yield f'skillpouch_name "{name}" "{target}"'


def _environments(line: str, home: str, places: Sequence[str]) -> Iterator[str]:
    """Yield what the shell is told of environments that a command names, below the skill or here.

    Instructions have people make them, to install packages there; those that are granted to the
    skill are installed elsewhere.
    """
    for found in _IN_ENVIRONMENT.finditer(line):
        folders, inside, program = found.groups()
        if ".." in folders.split("/"):
            continue
        if not program:
            yield "skillpouch_activation"
            continue
        target = f"{folders.rstrip('/').rpartition('/')[2]}/{inside}"
        names = {found[0], target, *(f"{place}/{target}" for place in places)}
        if _SAFE.match(home):
            names.add(f"{home}/{target}")
        for name in sorted(names):
            yield f'skillpouch_environment "{name}" {program}'


def _places(line: str, folder: str) -> Iterator[str]:
    """Yield the paths, in a home or in the folder of another program, where a skill is expected."""
    pattern = rf"(~|\$\{{?[A-Za-z_]\w*[^/\s\"']*)((?:/[\w.-]+)*)/{re.escape(folder)}(?![\w.-])"
    # In quotes of a program that is part of the command: Path.home() / ".claude/skills/x".
    quoted = rf"[\"'](\.[\w-][\w.-]*(?:/[\w.-]+)*)/{re.escape(folder)}(?![\w.-])"
    for between in re.findall(quoted, line, re.ASCII):
        if ".." not in between:
            yield f"$HOME/{between}/{folder}"
    for base, between in re.findall(pattern, line, re.ASCII):
        name = "".join(_VARIABLE.findall(base)[:1])
        if base == "~" or name == "HOME":
            yield f"$HOME{between}/{folder}"
        elif not names_skill_folder(f"${{{name}}}") and name != "CLAUDE_PLUGIN_ROOT":
            yield f"${{{name}}}{between}/{folder}"


def _shell() -> Path:
    """Return the file with the functions; the programs of the shell are beside it, in `bin`."""
    return _made(os.getpid())


@cache
def _made(_owner: int) -> Path:
    folder = process_folder() / "skill-shell"
    programs = folder / "bin"
    programs.mkdir(mode=0o700, parents=True)
    shell = folder / "shell"
    shell.write_bytes(_TEXT.read_bytes())
    shell.chmod(0o400)
    bash = find_program("bash")
    installed = {name: find_program(name) for name in (*_INTERPRETERS, *_ANSWERED)}
    for name, program in installed.items():
        if program or name in _ANSWERED:
            words = shlex.join((name, program))
            path = programs / name
            path.write_text(
                f'#!{bash}\n. {shlex.quote(str(shell))}\nskillpouch_main {words} "$@"\n'
            )
            path.chmod(0o500)
    return shell
