"""Profiles between confined and unconfined: what each opens, and that it opens nothing else."""

import asyncio
import os
import shutil
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skillpouch.execution.command import Command, Ended
from skillpouch.execution.confinement import Profile, ProfileUnavailableError, plan, why_not
from skillpouch.execution.engine import Engine
from skillpouch.execution.machine import Machine, find_gpus
from skillpouch.execution.zygote import wire
from skillpouch.execution.zygote_client import probe
from skillpouch.limits import Limits
from tests.execution.warm_calls import Skill

pytestmark = pytest.mark.slow

LOCAL: tuple[Profile, ...] = ("local-sockets",)
PATHS = [pytest.param(False, id="cold"), pytest.param(True, id="warm")]


class Calls:
    """Runs scripts of one skill with profiles."""

    def __init__(self, engine: Engine, skill: Skill) -> None:
        self._engine = engine
        self._skill = skill

    async def __call__(
        self, text: str, *words: str, profiles: tuple[Profile, ...] = (), **options: Any
    ) -> Ended:
        script = self._skill.write(options.pop("name", "call"), text)
        command = self._skill.command(script, *words, **options)
        confinement = replace(self._skill.confinement, profiles=profiles)
        return await self._engine.run(command, confinement)


@pytest.fixture
def calls(engine: Engine, skill: Skill) -> Calls:
    return Calls(engine, skill)


SHARE = """
import multiprocessing
if __name__ == "__main__":
    with multiprocessing.Manager() as manager:
        shared = manager.dict()
        workers = [multiprocessing.Process(target=shared.update, args=({n: n},)) for n in range(3)]
        [worker.start() for worker in workers]; [worker.join() for worker in workers]
        print(sorted(shared.items()))
"""


@pytest.mark.parametrize("warm", PATHS)
async def test_processes_of_a_call_share_a_manager_with_local_sockets(
    calls: Calls, warm: bool
) -> None:
    granted = await calls(SHARE, warm=warm, profiles=LOCAL)
    refused = await calls(SHARE, warm=warm)

    assert (granted.stdout.text, granted.stderr.text) == ("[(0, 0), (1, 1), (2, 2)]\n", "")
    assert (granted.warm, bool(granted.traces & wire.TRIED_SOCKETS)) == (warm, False)
    assert granted.protections["profiles"] == "loopback+local-sockets"
    assert (refused.outcome, bool(refused.traces & wire.TRIED_SOCKETS)) == ("failed", True)
    assert refused.protections["profiles"] == "loopback"


TALK = """
import os, socket, sys, threading
def serve(server):
    peer = server.accept()[0]
    peer.sendall(peer.recv(10).upper())
    peer.close()
for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
    for name in ("/tmp/absolute", "relative", chr(0) + "abstract", "/dev/shm/shared"):
        os.chdir("/tmp")
        server = socket.socket(socket.AF_UNIX, kind)
        server.bind(name)
        server.listen()
        thread = threading.Thread(target=serve, args=(server,))
        thread.start()
        client = socket.socket(socket.AF_UNIX, kind)
        client.connect(name)
        assert client.getpeername() in (name, name.encode()), client.getpeername()
        client.sendall(b"word")
        print(client.recv(10).decode(), end=" ")
        thread.join()
        server.close()
        if name[0] != chr(0): os.unlink(name)
try:
    socket.socket(socket.AF_UNIX).connect("/tmp/nobody")
except FileNotFoundError:
    print("nobody")
"""


@pytest.mark.parametrize("warm", PATHS)
async def test_sockets_of_a_call_talk_by_every_kind_of_name(calls: Calls, warm: bool) -> None:
    ended = await calls(TALK, warm=warm, profiles=LOCAL)

    assert (ended.stdout.text, ended.stderr.text) == ("WORD " * 8 + "nobody\n", "")


FULL = """
import socket, threading
server = socket.socket(socket.AF_UNIX)
server.bind("/tmp/busy")
server.listen(0)
first = socket.socket(socket.AF_UNIX); first.connect("/tmp/busy")
eager = socket.socket(socket.AF_UNIX); eager.setblocking(False)
try: eager.connect("/tmp/busy")
except BlockingIOError: print("full")
waiting = [socket.socket(socket.AF_UNIX) for _ in range(3)]
threads = [threading.Thread(target=each.connect, args=("/tmp/busy",)) for each in waiting]
[thread.start() for thread in threads]
other = socket.socket(socket.AF_UNIX); other.bind("/tmp/other"); other.listen()
socket.socket(socket.AF_UNIX).connect("/tmp/other")
print("others go on")
for _ in range(4): server.accept()
[thread.join() for thread in threads]
print("all connected")
"""


async def test_a_connect_that_has_to_wait_keeps_no_other_from_connecting(calls: Calls) -> None:
    ended = await calls(FULL, warm=False, profiles=LOCAL)

    assert (ended.stdout.text, ended.stderr.text) == ("full\nothers go on\nall connected\n", "")


WAITING = """
import socket, sys
BEFORE
print("ready", flush=True)
open(sys.argv[1]).read()  # until somebody opens the other end
AFTER
"""


def waiting(before: str = "", after: str = "") -> str:
    return WAITING.replace("BEFORE", before).replace("AFTER", after)


CONNECT = """
try: socket.socket(socket.AF_UNIX).connect(sys.argv[2])
except PermissionError: print("refused")
"""


@pytest.mark.parametrize("warm", PATHS)
@pytest.mark.promise("local-1")
async def test_a_socket_that_the_host_makes_while_a_call_runs_is_not_reached(
    engine: Engine, skill: Skill, workspace: Path, warm: bool
) -> None:
    gate, path = workspace / "gate", workspace / "late.socket"
    os.mkfifo(gate)
    script = skill.write("late", waiting(after=CONNECT))
    command = skill.command(script, str(gate), str(path), warm=warm)
    confinement = replace(skill.confinement, profiles=LOCAL)

    with socket.socket(socket.AF_UNIX) as server:

        def make(_stream: str, piece: bytes) -> None:
            if piece == b"ready\n":
                server.bind(str(path))
                server.listen()
                server.setblocking(False)
                gate.write_text("")

        ended = await engine.run(command, confinement, make)
        with pytest.raises(BlockingIOError):
            server.accept()

    assert (ended.stdout.text, ended.stderr.text) == ("ready\nrefused\n", "")


LISTEN = """
made = []
for family, name in (
    (socket.AF_UNIX, chr(0) + "of another call"), (socket.AF_UNIX, "/tmp/of another call"),
    (socket.AF_INET, ("127.0.0.1", 4711)), (socket.AF_INET6, ("::1", 4711)),
):
    server = socket.socket(family)
    server.bind(name)
    server.listen()
    made.append(server)
"""
REACH = """
import os, socket, sys
for family, name in (
    (socket.AF_UNIX, chr(0) + "of another call"), (socket.AF_UNIX, "/tmp/of another call"),
    (socket.AF_INET, ("127.0.0.1", 4711)), (socket.AF_INET6, ("::1", 4711)),
):
    try: socket.socket(family).connect(name)
    except OSError as error: print(type(error).__name__)
    else: print("REACHED")
"""


@pytest.mark.parametrize("warm", PATHS)
@pytest.mark.promise("local-1")
@pytest.mark.promise("loop-1")
async def test_calls_at_the_same_time_do_not_reach_each_other(
    engine: Engine, skill: Skill, workspace: Path, warm: bool
) -> None:
    gate = workspace / "gate"
    os.mkfifo(gate)
    confinement = replace(skill.confinement, profiles=LOCAL)
    first = skill.command(skill.write("first", waiting(before=LISTEN)), str(gate), warm=warm)
    second = skill.command(skill.write("second", REACH), warm=warm)
    listening = asyncio.Event()

    def ready(_stream: str, _piece: bytes) -> None:
        listening.set()

    running = asyncio.create_task(engine.run(first, confinement, ready))
    await listening.wait()
    reached = await engine.run(second, confinement)
    gate.write_text("")
    ended = await running

    refused = ["ConnectionRefusedError", "FileNotFoundError", *["ConnectionRefusedError"] * 2]
    assert reached.stdout.text.split() == refused
    assert (ended.stdout.text, ended.stderr.text) == ("ready\n", "")


SERVE = """
import http.server, socket, threading, urllib.request
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"page")
    def log_message(self, *_): pass
class Server(http.server.ThreadingHTTPServer):
    address_family = FAMILY
server = Server((ADDRESS, 8000), Page)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(urllib.request.urlopen(URL).read().decode())
"""
ADDRESSES = {
    "127.0.0.1": ("socket.AF_INET", "http://127.0.0.1:8000/"),
    "localhost": ("socket.AF_INET", "http://localhost:8000/"),
    "::1": ("socket.AF_INET6", "http://[::1]:8000/"),
}


@pytest.mark.parametrize("warm", PATHS)
@pytest.mark.parametrize("address", ADDRESSES)
async def test_a_call_serves_itself_on_loopback_without_a_grant(
    calls: Calls, warm: bool, address: str
) -> None:
    family, url = ADDRESSES[address]
    text = SERVE.replace("FAMILY", family).replace("ADDRESS", repr(address))
    text = text.replace("URL", repr(url))

    ended = await calls(text, warm=warm)
    again = await calls(text, warm=warm)  # the port is free again

    assert (ended.stdout.text, ended.stderr.text) == ("page\n", "")
    assert (again.stdout.text, again.stderr.text) == ("page\n", "")
    assert (ended.warm, ended.protections["net"]) == (warm, "netns+seccomp")


@pytest.mark.skipif(shutil.which("node", path="/usr/bin") is None, reason="needs Node.js")
async def test_a_server_of_node_is_reached_by_its_own_call(
    engine: Engine, skill: Skill, workspace: Path
) -> None:
    text = """
const server = require('http').createServer((_, answer) => answer.end('page'));
server.listen(8000, '127.0.0.1', async () => {
  console.log(await (await fetch('http://127.0.0.1:8000/')).text());
  server.close();
});
"""
    env = {"PATH": "/usr/bin:/bin"}
    command = Command(argv=("/usr/bin/node", "-e", text), env=env, cwd=workspace, limits=Limits())

    ended = await engine.run(command, skill.confinement)

    assert (ended.stdout.text, ended.stderr.text) == ("page\n", "")


NETWORK = "import os; print(os.readlink('/proc/self/ns/net'))\n"


@pytest.mark.parametrize("warm", PATHS)
@pytest.mark.promise("loop-1")
async def test_a_sandbox_whose_loopback_was_used_serves_no_other_call(
    calls: Calls, warm: bool
) -> None:
    used = NETWORK + "import socket; s = socket.create_server(('127.0.0.1', 0))\n"
    used += "import sys\nif sys.argv[1:]: socket.create_connection(s.getsockname())\n"

    first = await calls(used, warm=warm)
    second = await calls(used, "connect", warm=warm)
    third = await calls(used, warm=warm)

    networks = [ended.stdout.text for ended in (first, second, third)]
    assert networks[0] == networks[1] != networks[2]


# A listener that outlives its process: in messages of two sockets that nobody receives.
KEEP = """
import socket
pair = socket.socketpair(); s = socket.create_server(("127.0.0.1", 4711))
for each in pair: socket.send_fds(each, [b"x"], [s.fileno(), *(one.fileno() for one in pair)])
"""
FIND = """
import socket
try: socket.create_connection(("127.0.0.1", 4711))
except ConnectionRefusedError: print("nobody")
"""


@pytest.mark.parametrize("warm", PATHS)
@pytest.mark.promise("loop-1")
async def test_a_listener_that_outlives_its_call_is_not_there_for_the_next(
    engine: Engine, skill: Skill, warm: bool
) -> None:
    file = skill.write("kept", "import sys\nexec(sys.argv[1])\n")

    kept = await engine.run(skill.command(file, KEEP, warm=warm), skill.confinement)
    found = await engine.run(skill.command(file, FIND, warm=warm), skill.confinement)

    assert (kept.stderr.text, found.stdout.text) == ("", "nobody\n")


@pytest.mark.promise("loop-2")
@pytest.mark.promise("local-3")
@pytest.mark.parametrize("profile", ["loopback", "local-sockets", "gpu"])
def test_a_profile_that_cannot_be_held_is_refused_with_the_reason(
    profile: Profile, skill: Skill
) -> None:
    container = Machine(landlock=7, seccomp=True, memory=True, adoption=True)

    with pytest.raises(ProfileUnavailableError, match=r"needs namespaces and seccomp") as refusal:
        plan(replace(skill.confinement, profiles=(profile,)), container)

    assert (refusal.value.profile, refusal.value.code) == (profile, "profile_unavailable")


@pytest.mark.promise("gpu-1")
def test_without_a_graphics_processor_it_is_not_held(skill: Skill) -> None:
    machine = replace(probe(), gpu=())

    with pytest.raises(ProfileUnavailableError, match="there are no /dev/nvidia"):
        plan(replace(skill.confinement, profiles=("gpu",)), machine)

    assert why_not("gpu", replace(machine, gpu=("/dev/dri/renderD128",))) == ""


def test_graphics_processors_are_found_by_their_devices(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make devices")
    (tmp_path / "dri").mkdir()
    for name in ("nvidia0", "nvidiactl", "dri/renderD128", "dri/card0", "sda"):
        os.mknod(tmp_path / name, 0o20666, os.makedev(1, 5))
    (tmp_path / "nvidia-uvm").write_text("no device")

    found = find_gpus(tmp_path)

    names = ("dri/renderD128", "nvidia0", "nvidiactl")
    assert found == tuple(str(tmp_path / name) for name in names)


@pytest.mark.promise("gpu-1")
async def test_the_devices_of_a_graphics_processor_are_used_by_a_call_that_was_granted_them(
    skill: Skill, tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make devices")
    device = tmp_path / "renderD128"
    os.mknod(device, 0o20666, os.makedev(1, 5))  # as /dev/zero
    text = f"print(open({str(device)!r}, 'r+b', buffering=0).read(2))\n"
    command = skill.command(skill.write("call", text), warm=False)

    async with Engine(machine=replace(probe(), gpu=(str(device),))) as engine:
        granted = await engine.run(command, replace(skill.confinement, profiles=("gpu",)))
        refused = await engine.run(command, skill.confinement)

    assert granted.stdout.text == "b'\\x00\\x00'\n", granted.stderr.text
    assert granted.protections["profiles"] == "loopback+gpu"
    assert "FileNotFoundError" in refused.stderr.text
