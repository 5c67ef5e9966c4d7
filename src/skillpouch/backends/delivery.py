"""How arguments reach a program: words, input, variables, files in a folder it cannot write.

And how it reports its progress: by a named pipe in that folder.
"""

import atexit
import json
import os
import shlex
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from skillpouch.arguments import takes_data
from skillpouch.calls import OnStep, ToolCall
from skillpouch.environment import base_environment
from skillpouch.errors import InvalidArgumentsError
from skillpouch.execution.sandbox_client import STARTUP
from skillpouch.execution.streams import ProgressPipe
from skillpouch.execution.zygote_client import this_python
from skillpouch.json_values import json_text
from skillpouch.results import Progress
from skillpouch.runtime.removal import lock_folder, remove_left_behind, remove_tree
from skillpouch.signatures.argv import NO_DEFAULTS, Defaults, words
from skillpouch.tools import Script, argument_variable

# The kernel takes 128 KiB for one variable (MAX_ARG_STRLEN, execve(2)); larger values go into a
# file.
_LARGEST_VARIABLE = 96 * 1024
_MOST_VARIABLES = 512 * 1024


def fits_variable(text: str) -> bool:
    """Tell whether a text can be the value of one variable."""
    return len(text.encode()) <= _LARGEST_VARIABLE and "\0" not in text


def argument_variables(all_of_them: str, arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables; those that do not fit are named in `TOOL_ARGS_OMITTED`.

    `all_of_them` is the JSON of all arguments. Arguments with the same variable name get none.
    """
    wanted = {"TOOL_ARGS": all_of_them}
    names = {name: argument_variable(name) for name in arguments}
    often = Counter(names.values()) if names else _NONE
    for name, value in arguments.items():
        if often[names[name]] == 1:
            wanted[names[name]] = value if isinstance(value, str) else as_json(value)
    found: dict[str, str] = {}
    room = _MOST_VARIABLES
    for variable, text in wanted.items():
        size = 0 if variable == "TOOL_ARGS" else len(text.encode())
        if fits_variable(text) and size <= room:
            found[variable] = text
            room -= size
    omitted = [*(name for name in wanted if name not in found), *_twice(often)]
    return (
        found | {"TOOL_ARGS_OMITTED": " ".join(omitted)[:_LARGEST_VARIABLE]} if omitted else found
    )


def as_json(value: Any) -> str:
    """Return a value as a program reads it from a variable or its standard input."""
    return json_text(value)


_NONE: Counter[str] = Counter()


def _twice(often: Counter[str]) -> list[str]:
    return sorted(variable for variable, count in often.items() if count > 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What a script gets. `arguments` is the JSON of all arguments."""

    words: tuple[str, ...] = ()
    stdin: bytes = b""
    arguments: str = "{}"


def delivery_of(call: ToolCall, script: Script) -> Delivery:
    """Decide what a script gets, by its convention."""
    arguments: Any = dict(call.arguments)
    if script.convention == "handler" and takes_data(call.tool):
        data = arguments.get("data")
        arguments = {} if data is None else data
    if call.tool.declared_in == "tools.json" and isinstance(arguments, dict):
        arguments["__workDir"] = str(call.terms.workspace)
    text = as_json(arguments)
    if script.convention in ("handler", "main"):
        return Delivery(stdin=_stdin(call, text), arguments=text)
    if script.convention == "argv":
        return Delivery(words=_words(call, script), stdin=_stdin(call, ""), arguments=text)
    if takes_data(call.tool):
        return _untyped(call, script)
    return Delivery(stdin=_stdin(call, text), arguments=text)


def delivery_of_declared(call: ToolCall, words: tuple[str, ...] | None = None) -> Delivery:
    """Decide what a declared program gets: `words`, or JSON on standard input."""
    arguments = dict(call.arguments)
    if call.tool.declared_in == "tools.json":
        arguments["__workDir"] = str(call.terms.workspace)
    text = as_json(arguments)
    stdin = _stdin(call, text if words is None else "")
    return Delivery(words=words or (), stdin=stdin, arguments=text)


def _untyped(call: ToolCall, script: Script) -> Delivery:
    """Pass `data` as JSON on standard input, and text or a list of texts also as words.

    A script that reads lines and knows no JSON gets text as it is, and nothing if there is none.
    """
    data = call.arguments.get("data")
    if isinstance(data, str) and _is_json_object(data):
        return Delivery(stdin=_stdin(call, data), arguments=data)
    text = "{}" if data is None else as_json(data)
    given: tuple[str, ...] = ()
    if isinstance(data, str):
        given = (data,)
    elif isinstance(data, list) and all(isinstance(item, str) for item in data):
        given = tuple(data)
    _refuse_nul(call, given)
    if script.reads_lines and (data is None or given):
        lines = "".join(line if line.endswith("\n") else f"{line}\n" for line in given)
        return Delivery(stdin=_stdin(call, lines), arguments=text)
    return Delivery(words=given, stdin=_stdin(call, text), arguments=text)


def variables(delivery: Delivery, arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return TOOL_ARGS and TOOL_ARG_<NAME>, as far as they fit into an environment."""
    return argument_variables(delivery.arguments, arguments)


def _words(call: ToolCall, script: Script) -> tuple[str, ...]:
    try:
        return tuple(words(script.plan or (), call.arguments, _defaults(call)))
    except ValueError as error:
        raise InvalidArgumentsError(call.tool.id, [str(error)]) from None


def _defaults(call: ToolCall) -> Defaults:
    """Return the defaults of positional arguments; all of them, if a manifest declares the tool."""
    properties = call.tool.input_schema.get("properties", {})
    values = {
        name: each["default"]
        for name, each in properties.items()
        if isinstance(each, dict) and each.get("default") is not None
    }
    return Defaults(values, all=call.tool.declared_in == "manifest") if values else NO_DEFAULTS


def _refuse_nul(call: ToolCall, given: tuple[str, ...]) -> None:
    if any("\0" in word for word in given):
        problem = "a word of a command line cannot hold a NUL character"
        raise InvalidArgumentsError(call.tool.id, [problem])


def _stdin(call: ToolCall, text: str) -> bytes:
    return text.encode() if call.stdin is None else call.stdin


def _is_json_object(text: str) -> bool:
    if not text.lstrip().startswith("{"):
        return False
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def given_variables(call: ToolCall, delivery: Delivery, file: Path | None) -> dict[str, str]:
    """Return the arguments, which differ from call to call; `file` holds large ones."""
    found = variables(delivery, call.arguments)
    return found if file is None else found | {"TOOL_ARGS_FILE": str(file)}


# npm waits 10 s and more before each new attempt, pip and uv about 10 s in all: without a network,
# `npx tsc` took longer than most calls may, and nobody was told why.
_NO_RETRIES = dict.fromkeys(("npm_config_fetch_retries", "PIP_RETRIES", "UV_HTTP_RETRIES"), "0")
# By TCP, resolv.conf(5): the sandbox is asked, and tells which hosts were wanted.
_NO_RETRIES["RES_OPTIONS"] = "use-vc attempts:1"


def base_variables(granted: Iterable[Path] = ()) -> dict[str, str]:
    """Return the variables of every tool; on its PATH are also programs in paths it was granted.

    That is a file that can be run, and a folder that is called bin or has one.
    """
    found = base_environment()
    for path in granted:
        folder = path if path.name == "bin" else path / "bin"
        if os.path.isfile(path):
            folder = path.parent if os.access(path, os.X_OK) else folder
        if os.path.isdir(folder):
            found["PATH"] += f":{folder}"
    return found


def skill_variables(call: ToolCall) -> dict[str, str]:
    """Return the variables that are the same for every call of a skill in a workspace."""
    tool = call.tool
    is_offline = not call.access.hosts and not call.is_unconfined
    return {
        **(_NO_RETRIES if is_offline else {}),
        "SKILL_NAME": tool.skill,
        "SKILL_BASE_DIR": tool.home,
        "SKILL_VERSION": tool.version.replace("\0", ""),
        "SKILLPOUCH_WORKDIR": str(call.terms.workspace),
        _PROGRESS: _NOWHERE,
    }


def importable(home: str, *, scripts: bool = False) -> dict[str, str]:
    """Return the variable by which every Python of a call can import from the folder of a skill.

    With `scripts` its scripts/ folder comes first, before the standard library, as that of any
    script that Python runs.
    """
    if not home:
        return {}
    return {"PYTHONPATH": f"{STARTUP}{os.pathsep}{home}/scripts" if scripts else STARTUP}


def python_variables() -> dict[str, str]:
    """Return the variables by which Python writes no .pyc files and starts no threads at import."""
    return {
        # The skill is read-only, and the user's own packages are not visible.
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONNOUSERSITE": "1",
        # OpenBLAS starts threads at import, and they would not survive a fork.
        "OPENBLAS_NUM_THREADS": "1",
    }


@contextmanager
def argument_file(folder: Path, delivery: Delivery) -> Iterator[Path | None]:
    """Write the arguments into a file if no variable can hold them; remove it afterwards."""
    if fits_variable(delivery.arguments):
        yield None
        return
    fd, name = tempfile.mkstemp(suffix=".json", dir=folder)
    path = Path(name)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(delivery.arguments.encode())
        yield path
    finally:
        with suppress(OSError):
            path.unlink()


_PROGRESS, _NOWHERE = "SKILLPOUCH_PROGRESS", "/dev/null"
_UNHEARD: AbstractContextManager[None] = nullcontext()  # for most calls: nobody listens
_LINE_SECONDS = 1.0


def progress_pipe(call: ToolCall, folder: Path) -> AbstractContextManager[ProgressPipe | None]:
    """Make a pipe for the progress of a call in the folder of its skill, if somebody listens."""
    if call.on_step is None and call.on_progress is None:
        return _UNHEARD
    tell = call.on_step or _as_lines(call)
    return ProgressPipe(pipes_in(folder), call.redactor.value, tell)


def reported_by(pipe: ProgressPipe | None) -> dict[str, str]:
    """Return the variable that names the pipe; without one it has the value of every call."""
    return {_PROGRESS: pipe.path} if pipe is not None and pipe.path else {}


def _as_lines(call: ToolCall) -> OnStep:
    """Return what makes of reports lines for people: not more than one in a second."""
    say, since = call.on_progress, [-_LINE_SECONDS]

    def tell(progress: Progress) -> None:
        now = time.monotonic()
        if say is not None and now - since[0] >= _LINE_SECONDS:
            since[0] = now
            say(f"{call.tool.id}: {progress}")

    return tell


_PREFIX = "skillpouch-exchange-"


def process_folder() -> Path:
    """Return a folder of this process alone; tools see only some of its subfolders."""
    return _base(os.getpid())


@cache
def _base(owner: int) -> Path:
    """Return the folder of one process; a forked child has another id and gets its own."""
    remove_left_behind(_PREFIX)
    base = Path(tempfile.mkdtemp(prefix=_PREFIX)).resolve()
    lock_folder(base)  # never closed: the lock is held until the process ends, even if it is killed
    atexit.register(_remove, base, owner)
    return base


def _remove(base: Path, owner: int) -> None:
    if os.getpid() == owner:
        with suppress(OSError):
            remove_tree(base)


_python_folders: dict[int, Path] = {}


def python_folder() -> Path:
    """Return a folder with the Python of Skillpouch, and with no other program beside it.

    Scripts start `python` and `pip` by their names. What else is installed there was never granted
    to them, and commands for a skill do not see it, either.
    """
    owner = os.getpid()
    found = _python_folders.get(owner)
    return found or _python_folders.setdefault(owner, _with_python(_base(owner)))


def _with_python(base: Path) -> Path:
    folder, python = Path(tempfile.mkdtemp(prefix="python-", dir=base)), Path(this_python())
    for name in dict.fromkeys(("python", "python3", python.name, "pip", "pip3")):
        program = python if name.startswith("python") else python.with_name(name)
        if program.exists():
            # Not a link: Python finds its environment by the path at which it is started (PEP 405).
            path = folder / name
            path.write_text(f'#!/bin/sh\nexec {shlex.quote(str(program))} "$@"\n')
            path.chmod(0o500)
    return folder


_folders: dict[tuple[str, Path, int], Path] = {}


def exchange_folder(home: str, workspace: Path) -> Path:
    """Return the folder for the tools of one skill in one workspace."""
    key = (home, workspace, os.getpid())
    found = _folders.get(key)
    if found is None:
        made = Path(tempfile.mkdtemp(dir=_base(key[2])))
        # Nobody can list it, so that a call writes to no pipe but its own.
        pipes_in(made).mkdir(mode=0o300)
        found = _folders.setdefault(key, made)
    return found


def pipes_in(folder: Path) -> Path:
    """Return the folder for named pipes in the folder of a skill's tools."""
    return folder / "progress"


def forget_exchange(*, home: str = "", workspace: Path | None = None) -> None:
    """Remove the folders of a skill, or of a workspace, that is no longer used."""
    for key in list(_folders):
        if key[0] == home or key[1] == workspace:
            folder = _folders.pop(key, None)
            if folder is not None and key[2] == os.getpid():
                with suppress(OSError):
                    remove_tree(folder)


# Node decides by the extension what kind of module a file is.
_EXTENSIONS = {"node": ".js", "python": ".py", "python3": ".py", "ruby": ".rb", "perl": ".pl"}


def inline_file(home: str, interpreter: str, text: str) -> Path:
    """Return the file with this text, in the one folder that all inline scripts of a skill share.

    The file is compared with the text for every call, and rewritten when it differs.
    """
    data = text.encode(errors="replace")
    folder = _folder(home)
    path = folder / f"{sha256(data).hexdigest()[:32]}{_EXTENSIONS.get(interpreter, '.sh')}"
    if not _holds(path, data):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _replace(path, data)
    return path


def forget_inline(home: str) -> None:
    """Remove the inline files of a skill that is no longer used."""
    with suppress(OSError):
        remove_tree(_folder(home))


def _folder(home: str) -> Path:
    return process_folder() / f"inline-{sha256(os.fsencode(home)).hexdigest()[:16]}"


def _holds(path: Path, data: bytes) -> bool:
    try:
        return path.read_bytes() == data
    except OSError:
        return False


def _replace(path: Path, data: bytes) -> None:
    unfinished = path.with_name(f"{path.name}.{os.urandom(8).hex()}")
    unfinished.write_bytes(data)
    unfinished.chmod(0o400)
    unfinished.rename(path)


def forget_skill(home: str) -> None:
    """Remove what is kept for the skill in this folder, which is no longer called."""
    forget_exchange(home=home)
    forget_inline(home)


def forget_workspace(workspace: Path) -> None:
    """Remove what is kept for the calls in a workspace that is no longer used."""
    forget_exchange(workspace=workspace)
