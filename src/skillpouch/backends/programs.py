"""Running a program: what it may reach, which process serves it, and its answer."""

import os
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, cast

from skillpouch.backends.delivery import (
    Delivery,
    argument_file,
    base_variables,
    exchange_folder,
    given_variables,
    pipes_in,
    progress_pipe,
    python_variables,
    reported_by,
    skill_variables,
)
from skillpouch.backends.program_results import result_of
from skillpouch.calls import Access, Terms, ToolCall
from skillpouch.discovery.skill_copies import copies_around
from skillpouch.environment import base_environment, home_directory
from skillpouch.errors import UnsafeScriptError
from skillpouch.execution.command import Command, PreforkSpec, Prestarted
from skillpouch.execution.confinement import Confinement, OwnFolder, Profile
from skillpouch.execution.engine import run_command
from skillpouch.execution.sandbox_client import PROGRAM, STARTUP
from skillpouch.execution.zygote_client import this_python
from skillpouch.results import ToolResult
from skillpouch.skills import OWN_FILES
from skillpouch.tools import Script
from skillpouch.untrusted_files import real_home
from skillpouch.workspace.read_only import (
    around,
    is_read_only,
    kept_folders,
    own_mounts,
    run_later,
)
from skillpouch.workspace.workspace import look_at

RUNNERS = Path(__file__).with_name("runners")


def refuse_planted(program: str, workspace: Path) -> None:
    """Refuse an interpreter in the workspace, where a tool could have put it."""
    if program != this_python() and workspace in Path(program).parents:
        raise UnsafeScriptError(program, "an interpreter inside the workspace is not trusted")


def confinement_of(
    call: ToolCall,
    programs: tuple[Path, ...],
    exchange: Path | None = None,
    readable: tuple[Path, ...] = (),
    own: OwnFolder | None = None,
) -> Confinement:
    """Return what a program of a call may reach; `programs` are the paths it needs to run.

    A skill that is only a text has no folder, nor has a built-in tool. `exchange` is the folder
    with the files that pass arguments to a script, `own` what `own_folder_of` gave.
    """
    home = call.tool.home
    # The real folder at the time its files were read: a link that was changed since is not
    # followed.
    real = real_home(home) if home else ""
    return _confinement(
        _Of(real, call.tool.skill, call.tool.copied_from, exchange, own),
        programs if home == real else (*programs, Path(home)),
        call.terms,
        call.access.without_values,
        # The exchange folder is read-only, too: the next call would find what this one wrote there.
        (*_RUN_SCRIPTS, exchange, *readable) if exchange else readable,
        _Layers(is_own=call.writes != "direct" or bool(call.stack), below=call.stack),
    )


class _Layers(NamedTuple):
    """Whether a program has a layer of its own, and those of earlier calls that it sees."""

    is_own: bool
    below: tuple[Path, ...]


def own_folder_of(call: ToolCall) -> AbstractAsyncContextManager[OwnFolder | None]:
    """Return what a call has in the place of its skill's folder, if it may write there."""
    if not call.access.own_folder or call.is_unconfined:
        return nullcontext()
    return _own_folder(call)


@asynccontextmanager
async def _own_folder(call: ToolCall) -> AsyncIterator[OwnFolder]:
    # Imported here: few calls have one.
    from skillpouch.execution.own_folder import OwnFolderStore

    store = OwnFolderStore(
        skill=call.tool.skill,
        place=call.tool.place,
        digest=call.access.digest,
        home=real_home(call.tool.home),
        granted=call.access.own_folder,
    )
    try:
        async with store.in_use(call.terms.workspace, call.limits.timeout_seconds) as own:
            yield own
    finally:
        call.dropped.extend(store.dropped)


class _Of(NamedTuple):
    """The skill that a program belongs to, and the folder by which its tools exchange files."""

    home: str
    skill: str
    copied_from: str
    exchange: Path | None
    own: OwnFolder | None  # what its calls have in the place of its folder


_RUN_SCRIPTS = (RUNNERS, PROGRAM.parents[1])


@lru_cache(maxsize=1024)
def _confinement(
    of: _Of,
    programs: tuple[Path, ...],
    terms: Terms,
    access: Access,
    readable: tuple[Path, ...],
    layers: _Layers,
) -> Confinement:
    workspace = terms.workspace
    skill = Path(of.home) if of.home else None
    inside = kept_folders(terms, *_folders_of_skill(skill, of.copied_from, workspace))
    later = run_later(terms, access.writable)
    is_unconfined = terms.sandbox == "off" or access.unconfined
    hosts = () if is_unconfined else access.hosts
    profiles = (*access.profiles, *(("own-folder",) if of.own else ()))
    return Confinement(
        workspace=workspace,
        skill=skill,
        own=of.own,
        interpreters=programs,
        # Git hooks still run, confined, when a call runs git; and so do programs that it may read,
        # such as a browser, which it could copy and run anyway.
        runnable=(*later, *access.readable),
        readable=(*readable, *inside),
        writable=(
            *own_mounts(access.writable, terms, (*inside, *later)),
            *around((*inside, *later), workspace),
        ),
        workspace_read_only=is_read_only(terms),
        followed=_RUN_SCRIPTS,
        home_links=_home_links((*access.readable, *access.writable)),
        network="hosts" if hosts else "none",
        hosts=hosts,
        skill_name=of.skill if hosts else "",
        profiles=cast("tuple[Profile, ...]", () if is_unconfined else profiles),
        required=terms.required,
        sandbox="off" if is_unconfined else terms.sandbox,
        layered=layers.is_own,
        stack=layers.below,
        pipes=pipes_in(of.exchange) if of.exchange else None,
    )


def _home_links(granted: tuple[Path, ...]) -> tuple[tuple[str, str], ...]:
    """Return links by which a call finds granted paths of the user's home in its own, too."""
    user, own = home_directory(), base_environment()["HOME"]
    homes = {user, user.resolve()} if user else set[Path]()
    return tuple(
        (f"{own}/{path.relative_to(home)}", str(path))
        for path in granted
        for home in homes
        if home in path.parents
    )


def _folders_of_skill(skill: Path | None, copied_from: str, workspace: Path) -> list[Path]:
    """Return the files of a skill that stay read-only if the skill is inside the workspace."""
    place = Path(copied_from) if copied_from else skill
    own = [place] if place else []
    if place == workspace:
        own = [workspace / name for name in OWN_FILES]
    if skill and copied_from:
        own.append(copies_around(skill))
    return own


# Variables that an interpreter or its C library reads once, at its start. A warm process applies
# PYTHONPATH for each call.
_READ_AT_START = (
    *("PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "GLIBC_", "OPENBLAS_", "OMP_", "MKL_"),
    *("NODE_", "UV_", "SSL_", "OPENSSL_", "ICU_"),
)
_TAKEN_UP = ("PYTHONPATH",)
# Options that only set a flag; with any other, Python may do something else than run a file.
_PLAIN_OPTIONS = ("-u", "-O", "-OO", "-B", "-E", "-I", "-P", "-s", "-S", "-b", "-bb")


def warm_process_for(
    script: Script,
    *,
    program: tuple[str, ...],
    runner: str,
    env: Mapping[str, str],
    shared_env: Mapping[str, str],
    cwd: Path,
) -> PreforkSpec | Prestarted | None:
    """Return the warm process that can serve this script, None when it needs a fresh one.

    `env` is what the call will see, `shared_env` what every call of the skill sees.
    """
    differ = (name for name, value in env.items() if value != shared_env.get(name))
    if any(map(_is_read_at_start, differ)):
        return None
    shared = tuple(shared_env.items())
    if script.language == "python" and set(program[1:]) <= set(_PLAIN_OPTIONS):
        return PreforkSpec(
            program=program,
            script=script.file,
            runner=runner,
            folders=_own_folders(script, env),
            env=(*shared, *_USUALLY),
            cwd=cwd,
        )
    is_node = script.language in ("javascript", "typescript")
    if is_node and runner and _is_text((*env.values(), str(cwd))):
        return Prestarted(argv=(*program, runner, _WAIT), env=shared, cwd=cwd)
    return None


# Nearly every call sets this one; set from the start, the environment need not grow later.
_USUALLY = (("TOOL_ARGS", "{}"),)
_WAIT = "--wait"  # in place of a script, whose path comes with the call


def _own_folders(script: Script, env: Mapping[str, str]) -> tuple[str, ...]:
    given = (*env.get("PYTHONPATH", "").split(os.pathsep), env.get("SKILLPOUCH_SCRIPTS", ""))
    folders = dict.fromkeys((script.file.rpartition("/")[0], *given))
    return tuple(folder for folder in folders if folder not in ("", STARTUP))


def _is_text(words: Iterable[str]) -> bool:
    """Tell whether words can be sent as JSON: paths may hold bytes that are not text."""
    try:
        "".join(words).encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_read_at_start(name: str) -> bool:
    return name.startswith(_READ_AT_START) and name not in _TAKEN_UP


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What runs, and what it must see besides its skill and the workspace.

    `visible` may be run, `readable` only read; `script` is set when a warm process may serve it.
    """

    argv: tuple[str, ...]
    visible: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    script: Script | None = None


async def run_program(call: ToolCall, program: Program, delivery: Delivery) -> ToolResult:
    """Run a program and return what it printed."""
    refuse_planted(program.argv[0], call.terms.workspace)
    folder = exchange_folder(call.tool.place, call.terms.workspace)
    async with own_folder_of(call) as own:
        return await _run(call, program, delivery, folder, own)


async def _run(
    call: ToolCall, program: Program, delivery: Delivery, folder: Path, own: OwnFolder | None
) -> ToolResult:
    with argument_file(folder, delivery) as file, progress_pipe(call, folder) as pipe:
        given = given_variables(call, delivery, file) | reported_by(pipe)
        command = _command(call, program, delivery, given)
        before = look_at(call.terms.workspace) if call.writes == "direct" else None
        confinement = confinement_of(call, program.visible, folder, program.readable, own)
        call.watch.lap("prepare")
        ended = await run_command(command, confinement, call.on_output)
        call.watch.split("run", ended.laps)
        result = result_of(call, ended, before=before)
    call.watch.lap("read the answer")
    return result


def _command(
    call: ToolCall, program: Program, delivery: Delivery, given: Mapping[str, str]
) -> Command:
    shared = base_variables(call.access.readable) | skill_variables(call)
    if program.script:
        shared |= python_variables()
    env = {**shared, **program.variables, **given, **call.access.variables}
    is_at_home = call.tool.cwd == "skill" and call.tool.home
    cwd = Path(call.tool.home) if is_at_home else call.terms.workspace
    return Command(
        argv=(*program.argv, *delivery.words),
        env=env,
        cwd=cwd,
        stdin=delivery.stdin,
        limits=call.limits,
        new_filter=call.redactor.stream if call.access.secrets else None,
        unfinished=call.unfinished,
        layers=call.layers,
        warm=_warm(program, env, shared, cwd),
    )


def _warm(
    program: Program, env: Mapping[str, str], shared: Mapping[str, str], cwd: Path
) -> PreforkSpec | Prestarted | None:
    if program.script is None:
        return None
    return warm_process_for(
        program.script,
        program=program.argv[:-1],
        runner="",
        env=env,
        shared_env=shared,
        cwd=cwd,
    )
