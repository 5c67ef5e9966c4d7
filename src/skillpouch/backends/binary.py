"""Runs a binary that is installed, shipped in the skill, or downloaded."""

import os
import stat
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from shutil import which
from typing import Any, TypeVar

from skillpouch.backends.delivery import delivery_of_declared
from skillpouch.backends.programs import Program, run_program
from skillpouch.calls import ToolCall
from skillpouch.environment import home_directory, search_path
from skillpouch.errors import CommandStartError, InvalidArgumentsError, UnsafeScriptError
from skillpouch.execution.confinement import SYSTEM
from skillpouch.needs import Need
from skillpouch.provision.programs.fetching import this_platform, wanted_for, web_opener
from skillpouch.provision.programs.programs import DownloadTerms, program_for
from skillpouch.results import ToolResult
from skillpouch.templates import ArgvTemplate, FillError
from skillpouch.tools import Binary
from skillpouch.trust.errors import SecretUnsetError, UngrantedError
from skillpouch.untrusted_files import CannotReadError, require_inside

_PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/nix/store", "/gnu/store")


def find_executable(call: ToolCall, path: str) -> Path:
    """Return the file that `path` names: on PATH, in the skill, or on the machine.

    A file outside the system's folders must have been granted for reading, because it becomes
    visible to a third party's program.
    """
    if "/" not in path:
        found = _on_path(path, call.terms.workspace)
    elif Path(path).is_absolute():
        found = _on_machine(call, Path(path))
    else:
        found = _in_skill(call, path)
    _refuse_unfit(found)
    return found


def visible_for(file: Path) -> tuple[Path, ...]:
    """Return what must be made visible for a file to run: itself, unless it is the system's."""
    return () if is_system(file) and is_system(file.resolve()) else (file,)


def is_system(path: Path) -> bool:
    """Tell whether a file belongs to the system, which every tool sees."""
    return any(path.is_relative_to(folder) for folder in _PROGRAMS) or str(path) in SYSTEM


def _on_path(name: str, workspace: Path) -> Path:
    for folder in search_path().split(os.pathsep):
        # A relative entry would lead into the workspace, which tools write.
        found = which(name, path=folder) if os.path.isabs(folder) else None
        if found and _is_usable(Path(found), workspace):
            path = Path(found)
            # By the name on PATH if possible: some programs behave according to their name.
            return path if is_system(path) and is_system(path.resolve()) else path.resolve()
    raise CommandStartError(name, "it is not installed", hint=f"install {name}, or correct PATH")


def _is_usable(path: Path, workspace: Path) -> bool:
    """Tell whether a program is neither in the workspace nor a script that needs a home folder."""
    real = path.resolve()
    if workspace in path.parents or workspace in real.parents:
        return False
    home = home_directory()
    is_personal = home is not None and home.resolve() in real.parents
    return not is_personal or not _is_script(real)


def _is_script(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return True  # a file that cannot be read is treated like a script


def _on_machine(call: ToolCall, path: Path) -> Path:
    plain = Path(os.path.normpath(path))
    real = plain.resolve()
    home = call.tool.home
    if home and Path(os.path.realpath(home)) in real.parents:
        return _in_skill(call, os.path.relpath(real, os.path.realpath(home)))
    if is_system(plain) and is_system(real):
        return plain
    if call.terms.workspace in real.parents:
        raise UnsafeScriptError(str(path), "a program inside the workspace is not trusted")
    if not any(real == given or given in real.parents for given in call.access.readable):
        raise UngrantedError(call.tool.skill, [Need(kind="read", value=str(real))])
    return real


def _in_skill(call: ToolCall, path: str) -> Path:
    home = call.tool.home
    if not home:
        raise CommandStartError(path, "its skill has no folder", hint="name a program on PATH")
    file = os.path.normpath(f"{home}/{path}")
    try:
        require_inside(file, home)
    except CannotReadError as error:
        if error.code == "absent":
            raise CommandStartError(file, error.reason) from None
        raise UnsafeScriptError(file, error.reason) from None
    return Path(file)


def _refuse_unfit(file: Path) -> None:
    try:
        status = file.stat()
    except OSError as error:
        raise CommandStartError(str(file), CannotReadError.of(error).reason) from None
    if not stat.S_ISREG(status.st_mode):
        raise UnsafeScriptError(str(file), "it is not a regular file")
    if status.st_mode & (stat.S_ISUID | stat.S_ISGID):
        raise UnsafeScriptError(str(file), "it is setuid or setgid")
    if not os.access(file, os.X_OK):
        hint = f"chmod +x {file}"
        raise CommandStartError(str(file), "it is not executable", hint=hint)


T = TypeVar("T")


def fill_for(call: ToolCall, fill: Callable[[Mapping[str, Any], Mapping[str, str]], T]) -> T:
    """Fill one template, `fill_for(call, template.fill)`, with arguments and granted secrets."""
    try:
        return fill(call.arguments, call.access.variables)
    except FillError as error:
        if error.is_variable and error.name not in call.access.variables:
            raise SecretUnsetError(call.tool.skill, [error.name]) from None
        raise InvalidArgumentsError(call.tool.id, [str(error)], usage=error.hint) from None


class BinaryBackend:
    """Runs programs that a declaration names."""

    async def run(self, call: ToolCall) -> ToolResult:
        """Run it with the words of its template, or with JSON on standard input if it has none."""
        binary = call.tool.runs
        assert isinstance(binary, Binary)
        words = None
        if binary.args_template is not None:
            template = _template(binary.args_template, _dashed(call.tool.input_schema))
            words = tuple(fill_for(call, template.fill))
        file = await _file(call, binary)
        program = Program(argv=(str(file),), visible=visible_for(file))
        return await run_program(call, program, delivery_of_declared(call, words))


async def _file(call: ToolCall, binary: Binary) -> Path:
    if binary.path:
        return find_executable(call, binary.path)
    if not binary.url:
        raise CommandStartError(call.tool.id, "its backend has neither `path` nor `url`")
    given = call.access
    wanted = wanted_for(binary.url, binary.sha256, this_platform()).held_to(given.programs)
    terms = DownloadTerms(
        skill=call.tool.skill,
        opener=web_opener(call.tool.skill, given.hosts),
        vouch=call.vouch,
        on_progress=call.on_progress,
    )
    file = await program_for(wanted, terms)
    call.watch.lap("fetch the program")
    return file


@lru_cache(maxsize=1024)
def _template(text: str, dashed: frozenset[str]) -> ArgvTemplate:
    return ArgvTemplate.parse(text, dashed=dashed)


def _dashed(schema: Mapping[str, Any]) -> frozenset[str]:
    """Return the arguments that may begin with `-`: those whose schema lists such values."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return frozenset()
    return frozenset(name for name, each in properties.items() if _lists_values(each))


def _lists_values(schema: Any) -> bool:
    # The author has listed all values on purpose, and validation has refused any other value.
    if not isinstance(schema, Mapping):
        return False
    items = schema.get("items")
    return "enum" in schema or "const" in schema or (items is not None and _lists_values(items))
