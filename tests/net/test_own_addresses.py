"""Names that lead to this machine or its neighbours by public addresses, in a network apart."""

import json
import shutil
import subprocess
import sys
from typing import Any

import pytest

NETWORK = """
ip link set lo up
ip addr add 93.184.216.34/32 dev lo
ip -6 addr add 2606:2800:220:1::34/128 dev lo nodad
ip link add inner type veth peer name outer
ip link set inner up && ip link set outer up
ip addr add 93.184.217.5/24 dev inner
ip -6 addr add 2606:2800:217::5/64 dev inner nodad
ip route add default via 93.184.217.1
ip -6 route add default via 2606:2800:217::1
exec "$0" -c "$1"
"""
LOOK = """
import asyncio, json, socket
from skillpouch.provision.programs.fetching import web_opener
from skillpouch.execution.proxy.allowlist import Allowlist, RefusedHostError
from skillpouch.execution.proxy.dialer import Dialer
from skillpouch.net.hosts import Host
from skillpouch.net.http.guard import InsideAddressError
from skillpouch.net.http.guard import GrantedHosts, Guard

reached = []

async def tried(way):
    try:
        await way
    except (InsideAddressError, RefusedHostError):
        return "refused"
    except Exception as error:
        return type(error).__name__
    return "reached"

async def look(name, address, port, hosts):
    async def resolve(_):
        return [address]
    guard = Guard(GrantedHosts(hosts=hosts), resolve=resolve)
    uplink = Dialer(most=4, resolve=resolve)
    asked = Host(name, port, is_address=False)
    async def fetch():
        opener = web_opener("demo", hosts, resolve=resolve)
        async with opener(f"https://{name}:{port}/x", {}):
            pass
    return [
        await tried(asyncio.wait_for(guard.connect_tcp(name, port), 0.5)),
        await tried(asyncio.wait_for(
            uplink.dial(asked, Allowlist(hosts=hosts, skill="demo")), 0.5)),
        await tried(asyncio.wait_for(fetch(), 0.5)),
    ]

async def main():
    async def serve(reader, writer):
        reached.append(1)
        writer.close()
    four = await asyncio.start_server(serve, "0.0.0.0", 0)
    port = four.sockets[0].getsockname()[1]
    six = await asyncio.start_server(serve, "::", port, family=socket.AF_INET6)
    found = {}
    name = "service.example.com"
    for address in ("93.184.216.34", "93.184.217.5", "2606:2800:220:1::34", "2606:2800:217::5",
                    "::ffff:93.184.216.34", "2002:5db8:d822::1",
                    "93.184.217.9", "2606:2800:217::9"):
        found[address] = await look(name, address, port, (name + f":{port}",))
    none = len(reached)
    shown = {a: f"[{a}]" if ":" in a else a for a in ("93.184.216.34", "2606:2800:220:1::34")}
    for address, spelt in shown.items():
        hosts = (f"{name}:{port}", f"{spelt}:{port}")
        found["granted " + address] = (await look(name, address, port, hosts))[:2]
    for address in ("93.184.100.1", "2606:4700::1"):
        found[address] = (await look(name, address, port, (name + f":{port}",)))[:2]
    print(json.dumps([none, found]))

asyncio.run(main())
"""


def seen_in_a_network_of_its_own() -> tuple[int, dict[str, Any]]:
    words = ["unshare", "-rn", "sh", "-ec", NETWORK, sys.executable, LOOK]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    if ran.returncode and not ran.stdout:
        if "unshare" in ran.stderr or "RTNETLINK" in ran.stderr or "device type" in ran.stderr:
            pytest.skip(f"no network of its own here: {ran.stderr.strip():.100}")
        raise AssertionError(ran.stderr)
    return tuple(json.loads(ran.stdout))


@pytest.mark.slow
@pytest.mark.promise("net-6")
@pytest.mark.promise("http-1")
@pytest.mark.skipif(not (shutil.which("unshare") and shutil.which("ip")), reason="needs iproute2")
def test_a_granted_name_leads_neither_here_nor_next_door_by_a_public_address() -> None:
    reached, found = seen_in_a_network_of_its_own()

    granted = {key: value for key, value in found.items() if key.startswith("granted")}
    outside = {key: found[key] for key in ("93.184.100.1", "2606:4700::1")}
    inside = {key: value for key, value in found.items() if key not in {*granted, *outside}}
    assert [value[:2] for value in inside.values()] == [["refused"] * 2] * len(inside)
    assert all("reached" not in value for value in inside.values())
    assert reached == 0
    assert list(granted.values()) == [["reached"] * 2] * 2
    assert "refused" not in str(outside)
