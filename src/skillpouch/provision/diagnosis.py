"""Tries each protection, asks each interpreter for its version, and measures memory and folders."""

import json
import os
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from skillpouch.environment import (
    base_environment,
    cache_directory,
    data_directory,
    state_directory,
)
from skillpouch.errors import SkillpouchError
from skillpouch.execution.command import Command, Ended
from skillpouch.execution.confinement import Confinement, Profile, why_not
from skillpouch.execution.engine import run_command
from skillpouch.execution.zygote_client import probe, this_python
from skillpouch.limits import Limits
from skillpouch.provision.interpreters import find_program, homes_of
from skillpouch.runtime.loop_thread import run_blocking
from skillpouch.runtime.removal import is_left_behind

_RUNNERS = Path(__file__).parents[1] / "backends" / "runners"
_PROGRAMS = ("bash", "zsh", "node", "ruby", "perl", "uv", "rg")


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """`protections`: layer → what enforces it; `proofs`: layer → the result of the attempt."""

    protections: Mapping[str, str]
    proofs: Mapping[str, str]
    missing: tuple[str, ...]
    interpreters: Mapping[str, tuple[str, str]]  # name → path, version
    profiles: Mapping[str, str]  # name → why it cannot be held, "" if it can


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRoom:
    """What a process of a call may take, and what this machine has; None where nobody says so.

    `temporary_bytes` is the size of each temporary folder of a call, which are in memory.
    """

    call_bytes: int | None
    temporary_bytes: int
    machine_bytes: int | None
    available_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderRoom:
    """A folder that Skillpouch fills: what lies in it, and what its file system has left."""

    what: str
    path: str
    used_bytes: int
    free_bytes: int
    total_bytes: int
    whole: bool = True  # False if there was too much to measure all of it


def diagnose() -> Diagnosis:
    """Run an attempt to get out, and ask every interpreter for its version."""
    missing = [f"{layer}: {why}" for layer, why in probe().reasons]
    with tempfile.TemporaryDirectory(prefix="skillpouch-doctor-") as folder:
        outside, workspace = Path(folder).resolve() / "outside", Path(folder).resolve() / "work"
        outside.write_text("out of sight")
        workspace.mkdir()
        limits = Limits(timeout_seconds=10)
        words = (str(outside), str(os.getpid()), str(2 * (limits.memory_bytes or 0)))
        attempt = (this_python(), str(_RUNNERS / "try_protections.py"), *words)
        try:
            ended = _run(attempt, workspace, limits)
        except SkillpouchError as error:
            missing.append(str(error))
            protections, proofs = dict[str, str](), dict[str, str]()
        else:
            protections, proofs = dict(ended.protections), _proofs(ended)
        programs = {"python": this_python()} | {name: find_program(name) for name in _PROGRAMS}
        found = {name: (path, _version(path, workspace)) for name, path in programs.items()}
    protections.pop("profiles", None)  # those of this attempt
    if protections:
        protections["writes"] = "overlay" if probe().overlay else "direct"
    return Diagnosis(
        protections=protections,
        proofs=proofs,
        missing=tuple(missing),
        interpreters=found,
        profiles={name: why_not(name, probe()) for name in get_args(Profile)},
    )


def _proofs(ended: Ended) -> dict[str, str]:
    try:
        found: dict[str, str] = json.loads(ended.stdout.text)
    except ValueError:
        return {"fs": f"the attempt failed: {ended.stderr.text.strip()[-200:]}"}
    return found


def _version(program: str, workspace: Path) -> str:
    if not program:
        return "not installed"
    try:
        ended = _run((program, "--version"), workspace, Limits(timeout_seconds=5))
    except SkillpouchError as error:
        return f"cannot be run: {error}"
    lines = (ended.stdout.text or ended.stderr.text).strip().splitlines()
    return next((line.strip() for line in lines if line.strip()), f"exit code {ended.exit_code}")


def _run(argv: tuple[str, ...], workspace: Path, limits: Limits) -> Ended:
    command = Command(argv=argv, env=base_environment(), cwd=workspace, limits=limits)
    confinement = Confinement(
        workspace=workspace, interpreters=homes_of(argv[0]), readable=(_RUNNERS,)
    )
    return run_blocking(run_command(command, confinement))


_KIB = 1024
_MOST_ENTRIES = 200_000  # of one folder that are measured: a second or two
_OURS = "skillpouch-"  # how our folders for temporary files begin
_FORGOTTEN_SECONDS = 24 * 60 * 60  # nothing without a lock is in use for longer
_WORTH_REMOVING = 1024 * _KIB
_CGROUP = Path("/sys/fs/cgroup")


def memory_room(limits: Limits, meminfo: Path = Path("/proc/meminfo")) -> MemoryRoom:
    """Compare what a call may take with what this machine, or the container, has."""
    found: dict[str, int] = {}
    with suppress(OSError):
        for line in meminfo.read_text().splitlines():
            name, _, rest = line.partition(":")
            words = rest.split()
            if words and words[0].isdecimal():
                found[name] = int(words[0]) * _KIB
    total, available = found.get("MemTotal"), found.get("MemAvailable")
    # In a container the machine's memory is not what it may take, cgroup_namespaces(7).
    most, current = _cgroup_number("memory.max"), _cgroup_number("memory.current")
    if most is not None and (total is None or most < total):
        total = most
        left = most - (current or 0)
        available = left if available is None else min(left, available)
    return MemoryRoom(
        call_bytes=limits.memory_bytes,
        temporary_bytes=Confinement(workspace=_RUNNERS).temporary_bytes,
        machine_bytes=total,
        available_bytes=available,
    )


def _cgroup_number(name: str) -> int | None:
    with suppress(OSError, ValueError):
        return int((_CGROUP / name).read_text())
    return None


def folder_rooms() -> list[FolderRoom]:
    """Measure the folders that Skillpouch fills: temporary files, cache, state, data.

    Of the folder for temporary files, only what is Skillpouch's own; what processes that are gone
    have left behind there is counted by itself.
    """
    temporary = Path(tempfile.gettempdir())
    ours = [folder for folder in _own(temporary) if not _is_forgotten(folder)]
    rooms = [_room("temporary files", temporary, ours)]
    named = {"cache": cache_directory(), "state": state_directory(), "data": data_directory()}
    rooms += [_room(what, path, [path]) for what, path in named.items() if path and path.is_dir()]
    forgotten = [folder for folder in _own(temporary) if _is_forgotten(folder)]
    left = [_room("left behind", folder, [folder]) for folder in forgotten]
    return [*rooms, *(room for room in left if room.used_bytes >= _WORTH_REMOVING)]


def _own(temporary: Path) -> list[Path]:
    found = []
    for folder in sorted(temporary.glob(f"{_OURS}*")):
        with suppress(OSError):
            status = folder.lstat()
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
                found.append(folder)
    return found


def _is_forgotten(folder: Path) -> bool:
    is_left = is_left_behind(folder)
    if is_left is None:  # it never had a lock
        with suppress(OSError):
            return time.time() - folder.lstat().st_mtime > _FORGOTTEN_SECONDS
    return bool(is_left)


def _room(what: str, path: Path, measured: list[Path]) -> FolderRoom:
    space = os.statvfs(path)
    sizes = [size for folder in measured for size in _sizes(folder)]
    return FolderRoom(
        what=what,
        path=str(path),
        used_bytes=sum(sizes[:_MOST_ENTRIES]),
        free_bytes=space.f_bavail * space.f_frsize,
        total_bytes=space.f_blocks * space.f_frsize,
        whole=len(sizes) <= _MOST_ENTRIES,
    )


def _sizes(folder: Path) -> Iterator[int]:
    """Yield what each file takes on the disk; a file with several names counts once."""
    seen: set[tuple[int, int]] = set()
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                status = Path(place, name).lstat()
                if status.st_nlink > 1 and (status.st_dev, status.st_ino) in seen:
                    continue
                seen.add((status.st_dev, status.st_ino))
                yield status.st_blocks * 512
                if len(seen) > _MOST_ENTRIES:
                    return
