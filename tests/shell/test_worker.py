"""The host and its workers: nothing a worker says is believed, and none outlives its use."""

import asyncio
import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillpouch.execution import helper_process
from skillpouch.shell import worker_pool
from skillpouch.shell.engine import EngineCrashedError, ScriptJob
from skillpouch.shell.worker.frames import LARGEST, FrameError, Frames, frame
from skillpouch.shell.worker.protocol import CommandReply, CommandRequest, Done, ScriptRequest
from skillpouch.shell.worker_engine import WorkerEngine
from skillpouch.shell.worker_pool import Workers

pytestmark = pytest.mark.slow

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
EVIL = """
import socket, sys, time
line = socket.socket(fileno=int(sys.argv[1]))
line.recv(1)
line.sendall(bytes.fromhex({data!r}))
time.sleep(600)
"""


async def answer(command: CommandRequest) -> CommandReply:
    return CommandReply(f"{command.name} {command.words}\n")


def job(script: str = ":", *commands: str) -> ScriptJob:
    return ScriptJob(
        order=ScriptRequest(script, commands), on_command=answer, on_text=lambda _out, _err: None
    )


def done(**fields: Any) -> dict[str, Any]:
    return {"type": "done", **Done(0).packed(), **fields}


def command(**fields: Any) -> dict[str, Any]:
    return {"type": "command", "id": 1, "name": "ping", "words": [], "stdin": None, **fields}


FRAMES = {
    "no frame": b"\xff" * 64,
    "a frame without end": struct.pack(">I", LARGEST + 1),
    "no JSON": struct.pack(">I", 1) + b"{",
    "no object": struct.pack(">I", 2) + b"[]",
    "no type": frame({}),
    "an unknown type": frame({"type": "sudo"}),
    "a command nobody has": frame(command(name="rm")),
    "a number twice": frame(command()) + frame(command()),
    "a number to come": frame(command(id=7)),
    "words that are none": frame(command(words=[1])),
    "words that are one": frame(command(words=7)),
    "output that is no text": frame({"type": "text", "stdout": 1, "stderr": ""}),
    "an end without a code": frame(done(exit_code="0")),
    "a file outside": frame(done(files={"../x": ""})),
    "an absolute file": frame(done(files={"/x": ""})),
    "no base64": frame(done(files={"x": "?"})),
    "an end with more in it": frame(done(more=1)),
}


@pytest.mark.promise("script-6")
@pytest.mark.parametrize("data", FRAMES.values(), ids=list(FRAMES))
async def test_a_worker_that_lies_is_killed(
    data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "evil.py"
    program.write_text(EVIL.format(data=data.hex()))
    monkeypatch.setattr(worker_pool, "_PROGRAM", program)
    engine = WorkerEngine(worker_pool.DEFAULT_MEMORY_BYTES - 1)  # not the spare, which is honest
    before = set(helper_process._alive)

    with pytest.raises(EngineCrashedError):
        await asyncio.wait_for(engine.run(job(":", "ping")), 60)

    assert set(helper_process._alive) <= before


async def test_a_worker_is_used_again_with_nothing_left_of_the_script_before() -> None:
    engine = WorkerEngine()

    first = await engine.run(job("x=1; f() { :; }; echo a > /out/a; cd /tmp; set -e"))
    heard: list[str] = []
    order = ScriptRequest('false; echo "$x $PWD"; ls /out; f')
    await engine.run(
        ScriptJob(order=order, on_command=answer, on_text=lambda out, _err: heard.append(out))
    )
    engine.close()

    assert first.files == {"a": b"a\n"}
    assert "".join(heard) == " /home/user\n"


def test_a_worker_is_held_by_what_this_machine_has() -> None:
    engine = WorkerEngine()

    asyncio.run(engine.run(job()))
    engine.close()

    assert engine.protections["process"] == "worker"


@pytest.mark.promise("script-6")
def test_one_tools_workers_never_serve_another() -> None:
    first, second = Workers(), Workers()
    used = first.take()
    first.give_back(used)

    other = second.take()

    assert other is not used
    assert first.take() is used
    for worker in (used, other):
        worker.helper.end()


@given(st.lists(st.dictionaries(st.text(), JSON), max_size=4), st.integers(1, 7))
@settings(deadline=None, max_examples=50)
def test_frames_arrive_whole_however_they_are_cut(values: list[dict[str, Any]], size: int) -> None:
    data = b"".join(map(frame, values))
    frames = Frames()

    found = [
        value
        for start in range(0, len(data), size)
        for value in frames.feed(data[start : start + size])
    ]

    assert found == json.loads(json.dumps(values))


@given(st.binary(max_size=64))
@settings(deadline=None)
def test_any_bytes_are_frames_or_a_frame_error(data: bytes) -> None:
    try:
        assert all(isinstance(value, dict) for value in Frames().feed(data))
    except FrameError as error:
        assert str(error)  # noqa: PT017 - either is fine, another exception is not
