"""What one tool has to be granted, read from its skill and cached, and what a grant gives it."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from skillpouch.declarations.packages.declared_files import DeclaredFiles
from skillpouch.declarations.skill_md import read_skill_md
from skillpouch.discovery.digest import SKILL_FILES
from skillpouch.discovery.walk import skill_file_in
from skillpouch.limits import (
    USUAL_MEMORY,
    Limits,
    UsualMemory,
    UsualSeconds,
    read_size,
    read_time,
)
from skillpouch.needs import Need
from skillpouch.runtime.memoize import BoundedCache
from skillpouch.skills import Skill
from skillpouch.tools import BuiltIn, Function, Hosted, Script, SkillTools, Tool
from skillpouch.trust.grant import Grant, is_below, needs_of, needs_of_commands
from skillpouch.trust.granted_packages import (
    declared_anywhere,
    declared_packages,
    of_one_tool,
)
from skillpouch.trust.requested import declared_asks_of_each
from skillpouch.untrusted_files import CannotReadError, Stamp, is_plain, look

if TYPE_CHECKING:
    from skillpouch.calls import Access
    from skillpouch.trust.inferred_packages import Proposal

_MOST_KNOWN = 4096
_IN_BODY = "(## Configuration)"
_VARIABLES = ("secret", "setting")


class CallNeeds:
    """Finds the needs of a tool; its skill is read again after any change of its files.

    With `proposes`, for hosts that can ask somebody, undeclared packages are needs, too: those
    that a script imports and this Python lacks, so that the call could only fail without them.
    """

    def __init__(self, *, proposes: bool = False) -> None:
        self._proposes = proposes
        self._known: BoundedCache[tuple[str, str], tuple[Need, ...]] = BoundedCache(_MOST_KNOWN)
        self._packages: BoundedCache[tuple[str, str], frozenset[str]] = BoundedCache(_MOST_KNOWN)

    def of(self, tool: Tool, digest: str) -> tuple[Need, ...]:
        """Return what this tool needs, as its skill declares it."""
        if isinstance(tool.runs, Function | Hosted | BuiltIn) or not tool.home:
            return ()  # a command for a skill does with less what it can
        key = (tool.id, digest)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._read(tool)
        return known

    def _read(self, tool: Tool) -> tuple[Need, ...]:
        skill = skill_of(tool)
        if skill is None:
            return ()
        [asked] = declared_asks_of_each(skill, [tool])
        needed = _needed(tool, asked, DeclaredFiles(tool.home))
        if not self._proposes:
            return needed
        has_packages = any(need.kind == "packages" for need in needed)
        return (*needed, *_packages_to_propose(skill, tool, has_packages=has_packages))

    def granted(self, tool: Tool, digest: str, grant: Grant | None) -> tuple[Need, ...]:
        """Return the part of a skill's grant that one tool gets.

        That is everything except packages that only other scripts of the skill declare. A command
        that is written for the skill is not under its digest, and gets less.
        """
        if isinstance(tool.runs, BuiltIn):
            return needs_of_commands(grant) if grant else ()
        given = tuple(n for n in needs_of(grant) if n.kind != "commands") if grant else ()
        if not any(need.kind == "packages" for need in given):
            return given
        declared = self._declared_anywhere(tool.home, digest)
        packages = [need.value for need in given if need.kind == "packages"]
        own = of_one_tool(packages, self.of(tool, digest), declared)
        return tuple(need for need in given if need.kind != "packages" or need.value in own)

    def _declared_anywhere(self, home: str, digest: str) -> frozenset[str]:
        known = self._packages.get((home, digest))
        if known is None:
            known = self._packages[home, digest] = declared_anywhere(home)
        return known


def with_asks(skill: Skill, read: SkillTools) -> SkillTools:
    """Return the tools of a skill with their needs, and with stamps of the declaring files."""
    files = DeclaredFiles(str(skill.home))
    asked = declared_asks_of_each(skill, read.tools)
    needed = [_needed(tool, asks, files) for tool, asks in zip(read.tools, asked, strict=True)]
    tools = [
        replace(tool, asks=asks) if asks else tool
        for tool, asks in zip(read.tools, needed, strict=True)
    ]
    stamps = dict(_stamps_of(files.seen, str(skill.home))) if read.stamps else {}
    return replace(read, tools=tuple(tools), stamps=stamps | read.stamps)


def _needed(tool: Tool, asked: Iterable[Need], files: DeclaredFiles) -> tuple[Need, ...]:
    needed = [need for need in asked if _is_needed(need, tool)]
    return (*needed, *declared_packages(tool, files))


def _stamps_of(seen: Mapping[str, Stamp | None], home: str) -> Iterable[tuple[str, Stamp]]:
    """Yield stamps by path inside a skill; for a missing file, that of the nearest existing folder.

    Paths outside the skill are left out: files there are refused anyway.
    """
    for name, stamp in seen.items():
        path, found = name, stamp
        while found is None and is_below(path, home):
            path = os.path.dirname(path)
            found = look(path)
        if found is not None and is_below(path, home):
            yield path[len(home) + 1 :], found


def _packages_to_propose(skill: Skill, tool: Tool, *, has_packages: bool) -> tuple[Need, ...]:
    """Return what a script imports and no file declares, unless this Python has all of it.

    With packages of its own a script runs in an environment in which there is nothing else: then
    those that this Python has are proposed, too, at once.
    """
    if not isinstance(tool.runs, Script) or tool.runs.language != "python":
        return ()
    # Imported here, so that a call that proposes no packages does not load the reader of imports.
    from skillpouch.trust.requested_packages import folder_asks, package_needs, propose_packages

    proposals = [each for each in propose_packages(skill, [tool]) if not each.optional]
    is_apart = has_packages or not all(map(is_importable, proposals))
    return (*(package_needs(proposals) if is_apart else ()), *folder_asks(skill, [tool]))


def is_importable(proposal: "Proposal") -> bool:
    """Tell whether this Python finds what a script imports, without loading it."""
    if proposal.package.startswith("npm:"):
        return False
    try:
        return find_spec(proposal.imported.partition(".")[0]) is not None
    except (ImportError, ValueError):
        return False


def _is_needed(need: Need, tool: Tool) -> bool:
    """Tell whether a tool cannot run without a need of its skill.

    A variable that only a script reads may have a default, so it is not needed. A setting that the
    instructions describe is needed by the tools that read it.
    """
    if not need.declared:
        return False
    only_described = all(place.endswith(_IN_BODY) for place in need.asked_in.split(", "))
    return not only_described or need.kind not in _VARIABLES or need.value in tool.variables


def skill_of(tool: Tool) -> Skill | None:
    """Return the skill of a tool, read from its folder."""
    path = skill_file_in(tool.home)
    if not path:
        return None
    try:
        file = read_skill_md(path, Path(tool.home).name)
    except CannotReadError:
        return None
    return Skill(
        name=tool.skill,
        description=file.metadata.description,
        file=path,
        source=tool.home,
        metadata=file.metadata,
        contents=SKILL_FILES,
    )


def has_usual_memory(limits: Limits) -> bool:
    """Tell whether nobody set the memory of a call: only then can a grant raise it."""
    return isinstance(limits.memory_bytes, UsualMemory)


def needs_time(limits: Limits) -> bool:
    """Tell whether a call may take as long as its limits say only if that is granted."""
    seconds = limits.timeout_seconds
    return isinstance(seconds, UsualSeconds) and seconds.needs_grant


def is_lacking(need: Need, limits: Limits) -> bool:
    """Tell whether a call does not have a need anyway: what is set for memory and time holds."""
    if need.kind == "time":
        return needs_time(limits)
    size = read_size(need.value) if need.kind == "memory" else None
    return size is None or (has_usual_memory(limits) and size > USUAL_MEMORY)


def with_access(limits: Limits, access: "Access") -> Limits:
    """Return the limits of a call with the memory and the time that it was granted."""
    memory, seconds = limits.memory_bytes, limits.timeout_seconds
    if access.memory_bytes is not None and isinstance(memory, UsualMemory):
        memory = memory.raised_to(access.memory_bytes)
    if isinstance(seconds, UsualSeconds):
        seconds = seconds.with_grant(access.seconds)
    return replace(limits, memory_bytes=memory, timeout_seconds=seconds)


_PROFILES = ("local-sockets", "loopback")


def access_for(
    needs: Sequence[Need],
    values: Mapping[str, str],
    settings: Mapping[str, str],
    *,
    digest: str = "",
    unset: Sequence[str] = (),
) -> "Access":
    """Return what a call may use if all these needs are granted; `values` are its secrets.

    `digest` is that of its skill; `unset` are granted variables without a value.
    """
    # Imported here: reading skills, which uses this file, makes no calls.
    from skillpouch.calls import CONFINED, Access

    if not needs:
        return CONFINED
    by_kind: dict[str, dict[str, None]] = {}
    for need in needs:
        by_kind.setdefault(need.kind, {})[need.value] = None
    readable, writable = (_existing(by_kind.get(kind, ())) for kind in ("read", "write"))
    named = (*by_kind.get("read", ()), *by_kind.get("write", ()))
    own = tuple(sorted(by_kind.get("own-folder", ())))
    return Access(
        secrets=values,
        settings=settings,
        readable=tuple(readable),
        writable=tuple(writable),
        absent=tuple(each for each in named if Path(each) not in (*readable, *writable)),
        unset=tuple(unset),
        own_folder=own,
        digest=digest if own else "",
        hosts=tuple(by_kind.get("host", ())),
        packages=tuple(by_kind.get("packages", ())),
        builds=tuple(by_kind.get("build", ())),
        programs=tuple(by_kind.get("program", ())),
        profiles=(*(kind for kind in _PROFILES if kind in by_kind), *by_kind.get("devices", ())),
        memory_bytes=max(filter(None, map(read_size, by_kind.get("memory", ()))), default=None),
        seconds=max(filter(None, map(read_time, by_kind.get("time", ()))), default=None),
        unconfined="unconfined" in by_kind,
    )


def _existing(paths: Iterable[str]) -> list[Path]:
    """Return the paths that exist and contain no link.

    Grants store paths without links. A link that replaced one, perhaps made by the very tool that
    may write beside it, leads to a path that was not granted. A link may also appear after this
    check: the code that starts the tool opens each path once, without links, and uses that.
    """
    return [Path(path) for path in paths if is_plain(path)]
