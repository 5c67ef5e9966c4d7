"""The tools and files of skills in a script: tools by id, files as copies."""

import logging
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from skillpouch.errors import UnknownToolError
from skillpouch.executor import ToolExecutor
from skillpouch.registry.registry import ToolOverlay, is_built_in
from skillpouch.shell.errors import CommandNameError
from skillpouch.shell.toolbox import Folders, Toolbox, ToolDef
from skillpouch.shell.usage import check_command_name
from skillpouch.skills import Skill
from skillpouch.tools import Script, Tool

if TYPE_CHECKING:
    from skillpouch.jobs.soft_limit import CallsAndJobs

PLACE = "/skills"
_MOST_FILES, _MOST_BYTES = 2_000, 8 * 1024 * 1024
_MOST_DEPTH = 12
_NAMED = re.compile(r"/skills/([^\s/'\";|&()<>*?$`{}\[\]\\]+)(?=[\s/'\";|&()<>]|$)")
_ALL = re.compile(
    r"/skills(?![\w/-])|/skills/?(?=[\s*?$`{\[\\'\";|&()<>]|$)|/skills/[^\s/]*[*?$`{\[]"
)


def wanted(script: str, skills: Iterable[Skill]) -> list[Skill]:
    """Return the skills whose files a script may read, told by its text."""
    if PLACE not in script:
        return []
    if _ALL.search(script):
        return list(skills)
    names = set(_NAMED.findall(script))
    return [skill for skill in skills if skill.name in names]


def files_of(skills: Iterable[Skill]) -> dict[str, bytes]:
    """Return the files of skills by `name/path`, as far as there is room for them."""
    found: dict[str, bytes] = {}
    room = _MOST_BYTES
    for skill in skills:
        for path, data in _files_below(str(skill.home)):
            if len(found) >= _MOST_FILES or len(data) > room:
                break
            room -= len(data)
            found[f"{skill.name}/{path}"] = data
    return found


def _files_below(home: str) -> Iterator[tuple[str, bytes]]:
    waiting = [("", os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))]
    try:
        while waiting:
            yield from _files_in(*waiting[-1], waiting)
    finally:  # also when the reader has had enough
        for _, folder in waiting:
            os.close(folder)


def _files_in(
    below: str, folder: int, waiting: list[tuple[str, int]]
) -> Iterator[tuple[str, bytes]]:
    """Yield the files of the folder that waited last, and let those inside wait in its place."""
    names = sorted(os.listdir(folder))
    for name in names:
        path = f"{below}{name}"
        entry = _opened(name, folder)
        if isinstance(entry, int) and path.count("/") < _MOST_DEPTH:
            waiting.insert(0, (f"{path}/", entry))
        elif isinstance(entry, int):
            os.close(entry)
        elif entry is not None:
            yield path, entry
    waiting.pop()
    os.close(folder)


def _opened(name: str, folder: int) -> int | bytes | None:
    """Return a folder's descriptor, a file's bytes, or nothing of what is neither."""
    # Not through a link, and without waiting: a FIFO must not hold anybody up.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        fd = os.open(name, flags, dir_fd=folder)
    except OSError:
        return None
    mode = os.fstat(fd)
    if stat.S_ISDIR(mode.st_mode):
        return fd
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(mode.st_mode) or mode.st_size > _MOST_BYTES:
            return None
        return file.read(_MOST_BYTES)


_log = logging.getLogger(__name__)


@runtime_checkable
class CommandSource(Protocol):
    """Whose tools are to be commands: a SkillManager, or one session."""

    @property
    def source(self) -> ToolOverlay: ...
    @property
    def executor(self) -> "CallsAndJobs": ...
    def list_skills(self) -> list[Skill]: ...


def skill_toolbox(owner: CommandSource | ToolExecutor) -> Toolbox:
    """Return the tools of somebody; built-in ones, where there are any, are called `pouch.read` ….

    The shell's own `read`, `grep` and `ls` stay what they are.
    """
    if isinstance(owner, ToolExecutor):
        commands = _Commands(owner)
        return Toolbox(offered=commands.offered, executor=owner, tool=commands.tool, changes=True)
    if not isinstance(owner, CommandSource):
        raise TypeError(f"{type(owner).__name__} is not a manager, executor or session")
    commands = _Commands(owner)
    return Toolbox(
        offered=commands.offered,
        executor=owner.executor,
        tool=commands.tool,
        changes=True,
        folders=partial(_folders, owner),
    )


class _Commands:
    """The commands of a source, made anew when it has changed."""

    def __init__(self, owner: CommandSource | ToolExecutor) -> None:
        self._owner = owner
        self._made: tuple[object, dict[str, ToolDef], dict[str, Tool]] | None = None

    def offered(self) -> Mapping[str, ToolDef]:
        """Return what there is now; the same object for as long as it is the same."""
        return self._now()[0]

    def tool(self, name: str) -> Tool:
        definitions, tools = self._now()
        if name not in tools:
            raise UnknownToolError(name, known=definitions)
        return tools[name]

    def _now(self) -> tuple[dict[str, ToolDef], dict[str, Tool]]:
        source, made = self._owner.source, self._made
        version = source.version  # before the tools: what changes meanwhile is seen next time
        if made is None or made[0] != version:
            tools = dict(_named(source))
            definitions = {name: _definition(name, tool) for name, tool in tools.items()}
            made = self._made = version, definitions, tools
        return made[1], made[2]


def _named(tools: Iterable[Tool]) -> Iterable[tuple[str, Tool]]:
    for tool in tools:
        name = f"pouch.{tool.id}" if is_built_in(tool) else tool.id
        try:
            check_command_name(name)
        except CommandNameError as error:
            _log.warning("%s", error)
            continue
        yield name, tool


def _definition(name: str, tool: Tool) -> ToolDef:
    return ToolDef(
        name,
        tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        effects=tool.effects,
        examples=tool.examples,
        plan=tool.runs.plan if isinstance(tool.runs, Script) else None,
    )


def _folders(owner: CommandSource, script: str) -> Folders:
    skills = wanted(script, owner.list_skills())
    return {PLACE: files_of(skills)} if skills else {}
