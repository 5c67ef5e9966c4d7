"""A host of its own process: takes a layer away from itself, then runs every attempt to get out.

python host.py TIER FOLDER          one JSON object on stdout: attempt → what it printed
python host.py TIER FOLDER hang     says "ready" and waits in a call that has left daemons

A tier that ends with "+warm" has every attempt forked from a prefork server.
"""

import asyncio
import ctypes
import errno
import json
import os
import pty
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, os.environ["SKILLPOUCH_SOURCE"])

from skillpouch.errors import SandboxUnavailableError
from skillpouch.execution.command import Command, Ended, PreforkSpec
from skillpouch.execution.confinement import Confinement, Profile, ProfileUnavailableError
from skillpouch.execution.engine import Engine
from skillpouch.execution.own_folder import OwnFolderStore
from skillpouch.execution.sandbox_client import PROGRAM
from skillpouch.execution.zygote import kernel, seccomp
from skillpouch.execution.zygote.seccomp import NUMBERS
from skillpouch.execution.zygote_client import probe
from skillpouch.limits import Limits
from tests.escapes.attacks import (
    EVERYTHING,
    LAYERED,
    LOCAL_SOCKETS,
    OWN_FOLDER,
    PROXIED,
    USES_TERMINAL,
    program,
)
from tests.escapes.marks import marked

# "warm": forked by a prefork server; "layered": with a layer over the workspace; "hosts": with one
# host granted; "local", "gpu", "memory": with that profile; "own": may write in its own folder.
Ways = list[str]
PYTHON = "/usr/bin/python3"
# One script for all of them, so that they are calls of one prefork server after another.
# Each marks itself and what it starts by name: a fork shows its prefork server's environment.
ANY_ATTEMPT = """
import ctypes, errno, fcntl, os, socket, struct, sys
ctypes.CDLL(None).prctl(15, os.environ["CALL"].encode())
exec(sys.argv[1])
"""
PROFILES: dict[str, Profile] = {"local": "local-sockets", "gpu": "gpu"}
NAMESPACES = ("unshare", "setns", "mount", "open_tree", "fsopen", "pivot_root")


DEVICES = ("null", "zero", "random", "urandom")


def lay_over_devices(tier: str) -> None:
    """Cover the machine's devices with others like them, which the host's user owns.

    In a mount namespace of this process: what an attempt does to them stays in it.
    """
    if os.geteuid() != 0:
        return
    kernel.unshare(kernel.NEWNS)
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    real = {name: Path("/dev", name).stat() for name in DEVICES}
    kernel.mount("tmpfs", "/mnt", "tmpfs", kernel.MS_NOSUID)
    owner = 65534 if tier.startswith("user") else 0
    for name, status in real.items():
        os.mknod(f"/mnt/{name}", status.st_mode, status.st_rdev)
        Path("/mnt", name).chmod(0o666)
        os.chown(f"/mnt/{name}", owner, owner)
        kernel.mount(f"/mnt/{name}", f"/dev/{name}", None, kernel.MS_BIND)


def changed_devices() -> list[str]:
    """Name the devices whose mode or time is not that of a new one."""
    found = {name: Path("/dev", name).stat() for name in DEVICES}
    return [
        name
        for name, status in found.items()
        if status.st_mode & 0o777 != 0o666 or status.st_mtime == 1
    ]


def take_away(tier: str) -> None:
    """Block system calls for this process and all it starts, as a container runtime would."""
    refuse = [(0x06, 0, 0, 0x00050000 | errno.EPERM)]
    blocked: dict[str, list[tuple[int, int, int, int]]] = {}
    if tier in {"container", "user-container", "old-container"}:
        blocked.update(dict.fromkeys(NAMESPACES, refuse))
    if tier in {"no-landlock", "old-container"}:
        NUMBERS["x86_64"]["landlock_create_ruleset"] = 444
        blocked["landlock_create_ruleset"] = refuse
    if tier == "no-users":
        blocked["unshare"] = seccomp._without(0, kernel.NEWUSER, errno.EPERM)
    if tier == "user-masked":
        # As container runtimes do; a user namespace may then mount no /proc of its own.
        kernel.unshare(kernel.NEWNS)
        kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
        kernel.mount("tmpfs", "/proc/driver", "tmpfs", 0)
    if tier.startswith("user"):
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    if blocked:
        kernel.forbid_new_privileges()
        seccomp.install("x86_64", seccomp.assemble("x86_64", blocked))
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)


class Outside:
    """What is on the machine and must not be reached."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "outside"
        self.workspace = folder / "workspace"
        self.skill = folder / "skill"
        self.state = folder / "state"
        for path in (self.folder, self.folder / "other-skill", self.workspace, self.skill):
            path.mkdir()
        self.secret = self.folder / "secret"
        self.secret.write_text("hunter2")
        self.staged = self._stage("7", "staged-mark")  # by the session of the attempts
        self.others = self._stage("8", "others-mark")  # by another one
        (self.folder / "other-skill" / "SKILL.md").write_text("other")
        (self.skill / "SKILL.md").write_text("own")
        self.script = self.skill / "attempt.py"
        self.script.write_text(ANY_ATTEMPT)
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", 0))
        self.abstract = f"\0skillpouch-escape-{os.getpid()}"
        names = (str(self.folder / "socket"), str(self.workspace / "socket"), self.abstract)
        self.unix = [self._listen(name) for name in names]
        places = (self.folder / "datagrams", self.workspace / "datagrams")
        self.datagrams = [self._receive(str(place)) for place in places]
        self.sibling = subprocess.Popen(["/bin/sleep", "1000"], start_new_session=True)
        self.terminal = pty.openpty()
        self.before = self.secret.stat()

    def _stage(self, call: str, name: str) -> Path:
        """Make a layer of a call that waits, with a file in it."""
        layer = self.state / "skillpouch" / "changes" / call / "upper" / "0"
        layer.mkdir(parents=True)
        (layer / name).write_text("staged")
        return layer

    def _listen(self, name: str) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(name)
        listener.listen()
        return listener

    def _receive(self, name: str) -> socket.socket:
        receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        receiver.bind(name)
        return receiver

    def env(self) -> dict[str, str]:
        return {
            "PATH": "/usr/bin:/bin",
            "OUTSIDE": str(self.folder),
            "WORKSPACE": str(self.workspace),
            "SKILL": str(self.skill),
            "HOST": str(os.getpid()),
            "HOST_GROUP": str(os.getpgid(0)),
            "SIBLING": str(self.sibling.pid),
            "TCP": str(self.tcp.getsockname()[1]),
            "UDP": str(self.udp.getsockname()[1]),
            "ABSTRACT": self.abstract.replace("\0", "@"),
            "TERMINAL": os.ttyname(self.terminal[1]),
            "CALL": os.environ["TOKEN"],
            "LAYERS": str(self.state / "skillpouch" / "layers"),
            "STAGED": str(self.staged),
            "OTHERS": str(self.others),
        }

    def reached(self, *, layered: bool) -> list[str]:
        """What was touched, as seen from here."""
        found = []
        for listener in (self.tcp, self.udp, *self.unix, *self.datagrams):
            listener.setblocking(False)
            try:
                listener.recv(1) if listener.type == socket.SOCK_DGRAM else listener.accept()
                found.append(f"connected: {listener}")
            except BlockingIOError:
                continue
        if self.secret.read_text() != "hunter2" or len(list(self.folder.iterdir())) != 4:
            found.append("files outside changed")
        if self.sibling.poll() is not None:
            found.append("sibling killed")
        # The host itself saves long output there.
        known = {"socket", "datagrams", ".skillpouch"}
        if (self.staged / "staged-mark").read_text() != "staged":
            found.append("a layer that waits was changed")
        if layered:
            found += [path.name for path in self.workspace.iterdir() if path.name not in known]
        return found

    def close(self) -> None:
        for listener in (self.tcp, self.udp, *self.unix, *self.datagrams):
            listener.close()
        self.sibling.kill()
        self.sibling.wait()


def command_for(outside: Outside, code: str, limits: Limits, *, warm: bool) -> Command:
    prefork = PreforkSpec(
        program=(PYTHON, "-I"),
        script=str(outside.script),
        runner="",
        folders=(str(outside.skill),),
        env=(("PATH", "/usr/bin:/bin"),),
        cwd=outside.workspace,
    )
    return Command(
        argv=(PYTHON, "-I", str(outside.script), code),
        env=outside.env(),
        cwd=outside.workspace,
        limits=limits,
        warm=prefork if warm else None,
    )


def confinement_of(outside: Outside, ways: Ways) -> Confinement:
    granted = "hosts" in ways
    return Confinement(
        workspace=outside.workspace,
        skill=outside.skill,
        readable=(PROGRAM.parents[1],),
        network="hosts" if granted else "none",
        hosts=("example.com",) if granted else (),
        profiles=tuple(profile for way, profile in PROFILES.items() if way in ways),
        layered="layered" in ways,
        stack=(outside.staged,) if "layered" in ways else (),
    )


async def attempts(outside: Outside, ways: Ways) -> dict[str, Any]:
    async def run(code: str, **limits: float) -> Ended:
        more = {"memory_bytes": 2 << 30} if "memory" in ways else {}
        allowed = Limits(**{"timeout_seconds": 20, **more, **limits})  # type: ignore[arg-type]
        command = command_for(outside, code, allowed, warm="warm" in ways)
        ended = await engine.run(command, confinement_of(outside, ways))
        paths.append((ended.warm, ended.cold_because))
        return ended

    paths: list[tuple[bool, str]] = []
    # Any device that no tool has otherwise, in the place of a graphics processor.
    machine = replace(probe(), gpu=("/dev/tty",)) if "gpu" in ways else probe()
    async with Engine(grace_seconds=0.1, machine=machine) as engine:
        ended = await run("")
        said: dict[str, Any] = {"protections": dict(ended.protections), "paths": paths}
        more = (*(PROXIED if "hosts" in ways else ()), *(LOCAL_SOCKETS if "local" in ways else ()))
        more = (*more, *(LAYERED if "layered" in ways else ()))
        for name in (*EVERYTHING, *more):
            ended = await run(program(name))
            said[name] = (ended.stdout.text + ended.stderr.text).strip()
        said["terminal"] = (await run(USES_TERMINAL)).stdout.text.strip()
        for name, code, limits in HEAVY:
            ended = await run(code, **limits)
            said[name] = {
                "outcome": ended.outcome,
                "code": ended.code,
                "said": ended.stdout.text.strip()[:20],
                "alive": alive(),
            }
    return said


async def hang(outside: Outside, ways: Ways) -> None:
    code = DAEMON + "print('go', flush=True); time.sleep(1000)"
    command = command_for(outside, code, Limits(timeout_seconds=1000), warm="warm" in ways)

    def ready(_stream: str, _piece: bytes) -> None:
        sys.stdout.write("ready")
        sys.stdout.flush()

    await Engine().run(command, confinement_of(outside, ways), ready)


def alive() -> list[str]:
    """The command lines of processes that carry the mark of a call and are not yet dead."""
    return marked(os.environ["TOKEN"])


# A bomb that tries hard, an allocation, endless words, and daemons that leave their parents.
DAEMON = """
import os, time
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            while True:  # hops to a new process all the time
                if os.fork():
                    os._exit(0)
                time.sleep(0.0005)
        os._exit(0)
"""
BOMB = """
import os, signal
started = 0
try:
    while started < 500:
        if os.fork() == 0:
            signal.pause()
        started += 1
except OSError:
    pass
print(started)
"""
HEAVY: list[tuple[str, str, dict[str, float]]] = [
    (
        "fork bomb",
        BOMB,
        {},
    ),
    ("allocation", "x = bytearray(2 << 30)\nprint('ESCAPED')", {}),
    ("endless output", "while True: print('x' * 9999)", {"kill_bytes": 2_000_000}),
    ("large file", "open('big', 'wb').truncate(3 << 30)\nprint('ESCAPED')", {}),
    ("daemon at the end", DAEMON + "print('left')", {}),
    ("daemon at the timeout", DAEMON + "time.sleep(1000)", {"timeout_seconds": 0.4}),
    ("kill everybody", "import os\nos.kill(-1, 9)\nprint('done')", {}),
]


async def attempts_on_own_folder(outside: Outside, ways: Ways) -> dict[str, Any]:
    """Try to change the files of a skill whose calls may write beside them."""
    for name in ("scripts", "lib"):
        (outside.skill / name).mkdir()
        (outside.skill / name / "module.py").write_text("WORD = 'as it was'\n")
    (outside.skill / "linked").symlink_to("lib")
    before, said = tree_of(outside.skill), dict[str, Any]()
    store = OwnFolderStore(
        skill="own",
        place=str(outside.skill),
        digest="0" * 64,
        home=str(outside.skill),
        granted=("data", "lib/cache"),
    )
    async with Engine(grace_seconds=0.1) as engine:
        for name in OWN_FOLDER:
            async with store.in_use(outside.workspace, 20) as own:
                confinement = replace(
                    confinement_of(outside, ways), own=own, profiles=("own-folder",)
                )
                command = command_for(outside, program(name), Limits(), warm="warm" in ways)
                ended = await engine.run(command, confinement)
            said[name] = (ended.stdout.text + ended.stderr.text).strip()
            said["protections"] = dict(ended.protections)
    said["is_unchanged"] = tree_of(outside.skill) == before
    return said


def tree_of(folder: Path) -> dict[str, Any]:
    """Return all of a folder that a digest covers, and the times of its files."""
    found: dict[str, Any] = {}
    for path in sorted([folder, *folder.rglob("*")]):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        facts = (status.st_mode, status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
        found[str(path)] = (*facts, content.decode(), os.listxattr(path, follow_symlinks=False))
    return found


def main() -> None:
    tier, folder, *mode = sys.argv[1:]
    tier, *ways = tier.split("+")
    lay_over_devices(tier)
    take_away(tier)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.environ["XDG_STATE_HOME"] = f"{folder}/state"
    outside = Outside(Path(folder))
    if mode:
        asyncio.run(hang(outside, ways))
    try:
        tried = attempts_on_own_folder if "own" in ways else attempts
        said = asyncio.run(tried(outside, ways))
        said["reached"] = outside.reached(layered="layered" in ways)
        said["devices"] = changed_devices()
    except SandboxUnavailableError as error:
        said = {"refused": list(error.missing)}
    except ProfileUnavailableError as error:
        said = {"refused": [error.profile]}
    finally:
        outside.close()
    json.dump(said, sys.stdout)


if __name__ == "__main__":
    main()
