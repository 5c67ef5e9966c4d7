"""A call that went on without the network it was refused says so, and names the grant."""

import socket
from pathlib import Path

import pytest

from skillpouch import SkillManager, ToolResult
from skillpouch.needs import Need
from skillpouch.trust.grants import Grants
from tests.conftest import WriteSkill


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


def result_of(home: Path, workspace: Path) -> ToolResult:
    return SkillManager(home.parent, workspace=workspace, cache=False).call("demo.x")


SWALLOWS = """
'''Search. See https://docs.example.org for the words of a query.'''
import urllib.request
BASE = "https://api.example.com/v1"
def search():
    try:
        return urllib.request.urlopen(BASE, timeout=5).read()
    except OSError:
        return []
print(len(search()), "results")
"""
SWALLOWING = {
    "x.py": SWALLOWS,
    "x.js": "// X.\nfetch('https://api.example.com/v1').catch(() => console.log('0 results'));\n",
    "x.sh": "# See https://docs.example.org\n"
    "curl -sf https://api.example.com/v1 2>/dev/null || echo '0 results'\n",
}


@pytest.mark.parametrize("name", SWALLOWING)
def test_an_answer_without_the_network_it_wanted_says_so_and_names_the_host(
    name: str, write_skill: WriteSkill, workspace: Path
) -> None:
    home = write_skill(files={f"scripts/{name}": SWALLOWING[name]})

    result = result_of(home, workspace)

    note = (
        "note: it wanted api.example.com, and was not granted any network:"
        f" `skillpouch trust demo --host api.example.com --root {home.parent}`"
    )
    assert result.looked_up == ("api.example.com",)
    assert (result.outcome, result.data, result.refused_network) == ("ok", "0 results\n", True)
    assert (result.content, result.notes) == (f"0 results\n{note}", (note,))


def test_the_host_may_be_in_a_module_of_the_skill(write_skill: WriteSkill, workspace: Path) -> None:
    home = write_skill(
        files={
            "scripts/x.py": "from client import search\nprint(search())\n",
            "scripts/client.py": SWALLOWS.replace("print(", "str("),
        }
    )

    assert f"--host api.example.com --root {home.parent}" in result_of(home, workspace).content


def test_a_host_that_only_the_call_looked_up_is_named_as_such(
    write_skill: WriteSkill, workspace: Path
) -> None:
    script = SWALLOWS.replace('"https://api.example.com/v1"', '"https://api" + ".example.com"')
    home = write_skill(files={"scripts/x.py": script})

    assert result_of(home, workspace).content.endswith(
        "note: it wanted api.example.com, which neither its files nor its arguments name, and was"
        " not granted any network: `skillpouch trust demo --host api.example.com"
        f" --root {home.parent}`"
    )


def test_beside_hosts_of_its_own_one_that_only_the_call_names_is_still_named_as_such(
    write_skill: WriteSkill, workspace: Path
) -> None:
    both = SWALLOWS + 'BASE = "https://lamp" + ".example.net"\nsearch()\n'
    home = write_skill(files={"scripts/x.py": both})

    result = result_of(home, workspace)

    assert result.looked_up == ("api.example.com", "lamp.example.net")
    [note] = result.notes
    assert note == (
        "note: it wanted api.example.com, and lamp.example.net, which neither its files nor its"
        " arguments name, and was not granted any network: `skillpouch trust demo"
        f" --host api.example.com --host lamp.example.net --root {home.parent}`"
    )


LONG = """
import socket
for letter in "abcdefgh":
    name = ".".join([letter * 63] * 3 + [letter * 57, "com"])
    try:
        socket.getaddrinfo(name, 80)
    except OSError:
        pass
print("done")
"""


def test_only_the_first_hosts_are_told_and_the_longest_of_them_are_whole(
    write_skill: WriteSkill, workspace: Path
) -> None:
    result = result_of(write_skill(files={"scripts/x.py": LONG}), workspace)

    assert result.data == "done\n"
    assert [(host[0], len(host)) for host in result.looked_up] == [(c, 253) for c in "abcde"]


SHOUTING = """
import os, socket
try:
    socket.getaddrinfo(os.environ["LAMP_TOKEN"] + ".example.net", 80)
except OSError:
    print("nothing")
"""


def test_a_secret_in_the_name_of_a_host_is_redacted(
    write_skill: WriteSkill, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAMP_TOKEN", "Abra-Cadabra-17")
    home = write_skill(files={"scripts/x.py": SHOUTING})
    manager = SkillManager(home.parent, workspace=workspace, cache=False)
    Grants().grant(manager.get_skill("demo"), [Need(kind="secret", value="LAMP_TOKEN")])

    result = manager.call("demo.x")

    assert result.looked_up == ("[redacted LAMP_TOKEN].example.net",)
    assert "abra-cadabra" not in repr(result).lower()


OWN_NAME = """
import socket
for name in (socket.gethostname(), socket.getfqdn()):
    try:
        socket.getaddrinfo(name, 80)
    except OSError:
        pass
print("done")
"""


def test_a_look_at_the_name_of_the_machine_itself_has_no_note(
    write_skill: WriteSkill, workspace: Path
) -> None:
    result = result_of(write_skill(files={"scripts/x.py": OWN_NAME}), workspace)

    assert (result.content, result.looked_up) == ("done", ())


LOCAL_ONLY = """
import http.server, socket, threading, urllib.request
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
urllib.request.urlopen(f"http://localhost:{server.server_port}").close()
socket.socket(socket.AF_INET, socket.SOCK_STREAM).close()
socket.getaddrinfo("127.0.0.1", 80)
print("https://api.example.com")
"""


@pytest.mark.parametrize("script", ["print('https://api.example.com')\n", LOCAL_ONLY])
def test_a_call_that_looks_up_no_name_has_no_note(
    script: str, write_skill: WriteSkill, workspace: Path
) -> None:
    result = result_of(write_skill(files={"scripts/x.py": script}), workspace)

    assert (result.content, result.refused_network) == ("https://api.example.com", False)


def test_one_that_may_reach_hosts_is_told_of_those_that_were_refused_alone(
    write_skill: WriteSkill, workspace: Path
) -> None:
    home = write_skill(files={"scripts/x.py": SWALLOWS})
    manager = SkillManager(home.parent, workspace=workspace, cache=False)
    Grants().grant(manager.get_skill("demo"), [Need(kind="host", value="other.example")])

    result = manager.call("demo.x")

    assert result.refused_hosts == ("api.example.com",)
    assert len(result.notes) == 1


BOTH = """
import socket
for _ in range(40):
    for family in (socket.AF_INET, socket.AF_UNIX):
        try:
            socket.getaddrinfo("a.example", 80)
            socket.socket(family)
        except OSError as error:
            last = error
        try:
            socket.socket(socket.AF_UNIX)
        except OSError as error:
            last = error
print("done")
"""


def test_a_call_that_tries_sockets_without_end_is_told_of_both_kinds(
    write_skill: WriteSkill, workspace: Path
) -> None:
    result = result_of(write_skill(files={"scripts/x.py": BOTH}), workspace)

    assert (result.data, result.refused_network, result.refused_sockets) == ("done\n", True, True)
    assert len(result.notes) == 2


PATIENCE = """
import os
names = ("npm_config_fetch_retries", "PIP_RETRIES", "UV_HTTP_RETRIES")
print([os.environ.get(name) for name in names])
"""


def test_package_tools_try_only_once_where_there_is_no_network(
    write_skill: WriteSkill, workspace: Path
) -> None:
    home = write_skill(files={"scripts/x.py": PATIENCE})
    manager = SkillManager(home.parent, workspace=workspace, cache=False)

    without = manager.call("demo.x").content
    Grants().grant(manager.get_skill("demo"), [Need(kind="host", value="other.example")])

    assert without == "['0', '0', '0']"
    assert manager.call("demo.x").content == "[None, None, None]"


NO_PROXY = """
import socket, sys
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[1]))).close()
    print("served")
except OSError as error:
    sys.exit(f"Connect call failed ('127.0.0.1', {sys.argv[1]}): {error}")
"""


@pytest.mark.parametrize("is_named", [True, False])
def test_who_finds_nobody_on_its_own_loopback_is_told_a_grant_that_helps(
    is_named: bool, write_skill: WriteSkill, workspace: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        (workspace / "port").write_text(str(port))
        text = NO_PROXY.replace("sys.argv[1]", "open('port').read()")
        body = f"It talks to a lamp at port {port}.\n" if is_named else "It talks.\n"
        home = write_skill(files={"scripts/x.py": text}, body=body)
        manager = SkillManager(home.parent, workspace=workspace, cache=False)

        lacked = manager.call("demo.x").content
        Grants().grant(manager.get_skill("demo"), [Need(kind="host", value=f"localhost:{port}")])
        served = manager.call("demo.x")

    told = port if is_named else "PORT"
    assert f"`skillpouch trust demo --host localhost:{told} --root {home.parent}`" in lacked
    assert (served.content, served.outcome) == ("served", "ok")


LOOKS_UP = """
import socket, sys
try:
    socket.getaddrinfo("db.example.com", 3306)
except OSError:
    sys.exit("Database error: InterfaceError")
"""


def test_who_looks_up_a_granted_host_by_itself_is_told_that_the_grant_does_not_help(
    write_skill: WriteSkill, workspace: Path
) -> None:
    home = write_skill(files={"scripts/x.py": LOOKS_UP})
    manager = SkillManager(home.parent, workspace=workspace, cache=False)
    Grants().grant(manager.get_skill("demo"), [Need(kind="host", value="db.example.com")])

    content = manager.call("demo.x").content

    assert "note: it wanted a host, but not through the proxy by which tools reach hosts" in content
    assert f"`skillpouch trust demo --unconfined --root {home.parent}`" in content
