"""Hosts in processes of their own, each with a layer really taken away."""

import fcntl
import functools
import json
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import skillpouch
from tests.escapes.marks import marked

Said = dict[str, Any]
PYTHON = "/usr/bin/python3"


class Hosts:
    """Starts `host.py` from a copy that any user can read."""

    def __init__(self, folder: Path) -> None:
        if not Path(PYTHON).exists():
            pytest.skip("needs a Python that every user may run")
        self.token = secrets.token_hex(16)
        self._folder = folder
        shutil.copytree(Path(skillpouch.__file__).parent, folder / "source" / "skillpouch")
        shutil.copytree(Path(__file__).parent, folder / "source" / "tests" / "escapes")
        subprocess.run(["/bin/chmod", "-R", "a+rX", str(folder)], check=True)

    def start(self, tier: str, *mode: str) -> "subprocess.Popen[bytes]":
        if tier.startswith(("user", "no-users")) and os.geteuid() != 0:
            pytest.skip("only root can become another user, or do without user namespaces")
        workplace = self._folder / secrets.token_hex(4)
        workplace.mkdir()
        workplace.chmod(0o777)
        env = {
            "PATH": "/usr/bin:/bin",
            "SKILLPOUCH_SOURCE": str(self._folder / "source"),
            "TOKEN": self.token,
        }
        command = [
            PYTHON,
            "-I",
            str(self._folder / "source" / "tests" / "escapes" / "host.py"),
            tier,
            str(workplace),
            *mode,
        ]
        return subprocess.Popen(command, env=env, cwd="/", stdout=subprocess.PIPE)

    def alive(self) -> list[str]:
        """The command lines of processes started by any call of these hosts."""
        return marked(self.token)


@pytest.fixture(scope="session")
def hosts() -> Iterator[Hosts]:
    # Not pytest's own folder, which only its user may enter.
    with tempfile.TemporaryDirectory(prefix="skillpouch-escapes-") as name:
        yield Hosts(Path(name))


@pytest.fixture(scope="session")
def said_in(hosts: Hosts, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Said]:
    """What every attempt said on a tier; the tier's host runs once for all tests and workers."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # which all workers of this run have in common

    @functools.cache
    def said(tier: str) -> Said:
        kept = folder / f"said-{tier}.json"
        with kept.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not kept.exists():
                output, _ = hosts.start(tier).communicate(timeout=120)
                kept.write_bytes(output)
        result: Said = json.loads(kept.read_bytes())
        return result

    return said
