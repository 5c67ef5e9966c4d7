from pathlib import Path

import pytest

from skillpouch.execution.command import Command, PreforkSpec
from skillpouch.execution.proxy.allowlist import through_proxy

PROXY = "http://127.0.0.1:3128"


@pytest.mark.parametrize(
    ("hosts", "own"),
    [
        (("example.com",), "localhost,127.0.0.1,::1"),
        (("127.0.0.1:8080",), None),  # a server of this machine's loopback was granted
        (("example.com", "localhost:80"), None),
        (("[::1]:80",), None),
    ],
)
def test_every_program_is_told_of_its_proxy_and_of_no_exception_but_its_own_loopback(
    hosts: tuple[str, ...], own: str | None
) -> None:
    prefork = PreforkSpec(
        program=("/usr/bin/python3",),
        script="/s.py",
        runner="",
        folders=(),
        env=(("A", "1"), ("no_proxy", "*")),
        cwd=Path("/"),
    )
    env = {"A": "1", "HTTP_PROXY": "http://corporate:8080", "NO_PROXY": "*", "no_proxy": "*"}

    told = through_proxy(Command(argv=("/bin/true",), env=env, cwd=Path("/"), warm=prefork), hosts)

    wanted = {
        "A": "1",
        **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), PROXY),
        **dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), PROXY),
        "NODE_USE_ENV_PROXY": "1",
        **({} if own is None else {"no_proxy": own, "NO_PROXY": own}),
    }
    assert told.env == wanted
    assert told.warm is not None
    assert dict(told.warm.env) == wanted
