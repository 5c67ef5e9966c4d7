"""Skills with tools of each kind of answer, or that wait; and a model provider on this machine."""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from skillpouch import SkillManager
from skillpouch.integrations.long_calls import LongCallOptions
from tests.jobs.hosts import until

WriteSkill = Callable[..., Path]

PIXEL = b"\x89PNG\r\n\x1a\n" + b"\0" * 24
ADD = '"""Add two numbers."""\n\n\ndef main(a: int, b: int = 1) -> int:\n    return a + b\n'
FAIL = '#!/bin/bash\n# Fail\necho "no such page" >&2\nexit 4\n'
ECHO = '"""Echo."""\nimport json, sys\n\nprint(json.dumps(json.load(sys.stdin)))\n'


@pytest.fixture
def manager(write_skill: WriteSkill, tmp_path: Path) -> SkillManager:
    files = {"scripts/add.py": ADD, "scripts/fail.sh": FAIL, "scripts/echo.py": ECHO}
    root = write_skill("demo", files=files).parent
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "dot.png").write_bytes(PIXEL)
    return SkillManager(root, workspace=tmp_path / "work", builtins=True)


# Appends its word to a file, which shows how often it ran, and waits for another file.
GATED = """#!/bin/bash
# Wait until somebody opens.
echo '{"done": 1, "total": 2, "message": "half"}' >> "${SKILLPOUCH_PROGRESS:-/dev/null}"
echo "$1" >> ran
echo begun
until [ -e "go-$1" ]; do sleep 0.01; done
echo ended
"""
JOB_TOOLS = ["job_wait", "job_output", "job_cancel"]


@dataclass(frozen=True, slots=True)
class Gate:
    """The skill `slow`, whose tool `gated` ends when it is opened."""

    manager: SkillManager
    work: Path

    def open(self, word: str) -> None:
        (self.work / f"go-{word}").touch()

    def end(self, word: str, job_id: str) -> None:
        """Open, and wait until the job has ended: `job_wait` waits no longer than a soft limit."""
        self.until_begun()
        self.open(word)
        until(lambda: self.manager.job(job_id).is_final, "the end")

    @property
    def ran(self) -> list[str]:
        path = self.work / "ran"
        return sorted(path.read_text().split()) if path.exists() else []

    @property
    def job_ids(self) -> list[str]:
        """The ids of all jobs, the oldest first."""
        return [job.id for job in reversed(self.manager.jobs())]

    def until_begun(self) -> None:
        """Wait until every job has printed something."""
        until(lambda: all(job.output().data for job in self.manager.jobs()), "the beginning")


@pytest.fixture
def gate(write_skill: WriteSkill, tmp_path: Path) -> Iterator[Gate]:
    # As long as it may take without a grant: some tests wait for as long as a busy machine takes.
    times = "metadata: {skillpouch: {timeout_seconds: 600}}\n"
    front = f"name: slow\ndescription: Takes its time.\n{times}"
    root = write_skill("slow", front=front, files={"scripts/gated.sh": GATED}).parent
    work = tmp_path / "gate"
    work.mkdir()
    # Written directly: tests look at files of a call while it runs.
    manager = SkillManager(root, workspace=work, writes="direct")
    yield Gate(manager, work)
    for job in manager.jobs(state=("queued", "waiting_for_approval", "running")):
        job.cancel()


@pytest.fixture
def soon(request: pytest.FixtureRequest) -> LongCallOptions:
    """A soft limit that is soon over, of an owner whom no other test knows."""
    return LongCallOptions(soft_limit_seconds=0.3, owner=request.node.nodeid)


class Provider:
    """Answers requests with what it was told to, in order; remembers what it was sent.

    A reply may be a function of the request.
    """

    def __init__(self) -> None:
        self.replies: list[dict[str, Any] | Callable[[dict[str, Any]], dict[str, Any]]] = []
        self.requests: list[dict[str, Any]] = []
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers["Content-Length"])
                provider.requests.append(json.loads(self.rfile.read(size)))
                reply = provider.replies[len(provider.requests) - 1]
                told = reply(provider.requests[-1]) if callable(reply) else reply
                body = json.dumps(told).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def provider() -> Iterator[Provider]:
    running = Provider()
    yield running
    running.close()
