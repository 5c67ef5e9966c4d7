"""Progress that a program reports: what is read of it, and that it arrives on every machine."""

import asyncio
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillpouch.execution.command import Command, Ended
from skillpouch.execution.confinement import Confinement
from skillpouch.execution.engine import Engine
from skillpouch.execution.machine import Machine
from skillpouch.execution.streams import ProgressLines, ProgressPipe
from skillpouch.execution.zygote_client import probe
from skillpouch.results import Progress
from skillpouch.secrets.redaction import Redactor
from skillpouch.text import clean

PLAIN = Redactor({})


def lines() -> ProgressLines:
    return ProgressLines(PLAIN.value)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"done": 3, "total": 10, "message": "pages"}, Progress(3, 10, "pages")),
        ({"done": 0.5}, Progress(0.5)),
        ({"done": 12, "total": 10}, Progress(12, 10)),
        ({"done": 1, "total": None}, Progress(1)),
        ({"message": "starting"}, Progress(0, None, "starting")),
        ({"done": 1, "message": "two\nlines  \tof it"}, Progress(1, None, "two lines of it")),
        ({"done": 1, "message": "\x1b[2Jred\u202e"}, Progress(1, None, "red")),
        ({"done": 1, "message": "x" * 1000}, Progress(1, None, "x" * 500)),
        ({"done": 1, "more": [1]}, Progress(1)),
    ],
)
def test_a_line_of_json_is_a_report(written: dict[str, Any], expected: Progress) -> None:
    assert lines().feed(json.dumps(written).encode() + b"\n") == expected


@pytest.mark.parametrize(
    "written",
    [
        b"garbage",
        b"[1, 2]",
        b"3",
        b"{}",
        b'{"percent": 3}',
        b'{"done": "3"}',
        b'{"done": true}',
        b'{"done": -1}',
        b'{"done": NaN}',
        b'{"done": Infinity}',
        b'{"done": 1e400}',
        b'{"done": ' + b"9" * 400 + b"}",
        b'{"done": 1, "total": -5}',
        b'{"done": 1, "total": "10"}',
        b'{"done": 1, "message": ["x"]}',
        b'{"done": 1, "message": "\\ud800"}',
        b"[" * 4000,
        b'{"done": 1, "message": "' + b"x" * 4096 + b'"}',
        b"\xff\xfe{}",
    ],
)
def test_what_is_no_report_is_counted_and_changes_nothing(written: bytes) -> None:
    read = lines()

    found = [read.feed(b'{"done": 1}\n'), read.feed(written + b"\n"), read.feed(b'{"total": 4}\n')]

    assert found == [Progress(1), None, Progress(1, 4)]
    assert read.ignored == 1


def test_of_several_reports_in_one_piece_the_last_is_passed_on() -> None:
    read = lines()

    found = read.feed(b'{"done": 1, "total": 3}\n{"done": 2}\nnoise\n\n{"done": 3')

    assert found == Progress(2, 3)
    assert read.feed(b"}\n") == Progress(3, 3)
    assert read.ignored == 1


@given(st.binary(max_size=3000), st.lists(st.integers(1, 400), max_size=20))
def test_any_bytes_in_any_pieces_give_finite_numbers_and_plain_text(
    data: bytes, sizes: list[int]
) -> None:
    read, whole = lines(), lines()
    found: list[Progress | None] = [whole.feed(data + b"\n")]
    for size in sizes:
        found.append(read.feed(data[:size]))
        data = data[size:]
    found.append(read.feed(data + b"\n"))

    assert read.ignored == whole.ignored
    for each in filter(None, found):
        assert 0 <= each.done < math.inf
        assert each.total is None or 0 <= each.total < math.inf
        assert len(each.message) <= 500
        assert clean(each.message) == each.message
        assert "\n" not in each.message


_NUMBERS = st.none() | st.integers() | st.floats() | st.booleans() | st.text(max_size=3)


@given(_NUMBERS, _NUMBERS, st.none() | st.text() | st.integers())
def test_any_values_are_a_report_or_ignored(done: Any, total: Any, message: Any) -> None:
    read = lines()
    written = {"done": done, "total": total, "message": message}

    found = read.feed(json.dumps(written).encode() + b"\n")

    assert read.ignored == (found is None)
    if found is not None:
        assert found.done == done >= 0
        assert found.total == total


@pytest.mark.promise("sec-2")
def test_secrets_are_redacted_in_reports() -> None:
    redactor = Redactor({"API_KEY": "hunter2-hunter2", "PIN": "123456789"})
    read = ProgressLines(redactor.value)

    told = read.feed(b'{"done": 1, "message": "with hunter2-hunter2"}\n')
    escaped = read.feed(b'{"done": 2, "message": "with hunter\\u0032-hunter2"}\n')
    number = read.feed(b'{"done": 123456789}\n')

    assert told == Progress(1, None, "with [redacted API_KEY]")
    assert escaped == Progress(2, None, "with [redacted API_KEY]")
    assert number is None


@pytest.fixture
def exchange(tmp_path: Path) -> Path:
    (tmp_path / "exchange" / "progress").mkdir(parents=True)
    (tmp_path / "exchange" / "progress").chmod(0o300)
    return tmp_path / "exchange"


MACHINES: dict[str, Callable[[Machine], Machine]] = {
    "as it is": lambda machine: machine,
    "without Landlock": lambda machine: replace(machine, landlock=0),
    "in a container": lambda machine: replace(
        machine, namespaces=False, user_namespace=False, own_proc=False, pid_limit=False
    ),
    "without any": lambda _: Machine(),
}

SCRIPT = """
echo '{"done": 1, "total": 2, "message": "one"}' >> "$SKILLPOUCH_PROGRESS"
env - bash -c "echo '{\\"done\\": 2}' >> $SKILLPOUCH_PROGRESS"
folder=$(dirname "$SKILLPOUCH_PROGRESS")
ls "$folder" > /dev/null 2>&1 && echo listed
"""
HARM = """
: > "$folder/new" && echo made
: > "$folder/../new" && echo made outside
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", MACHINES)
async def test_every_process_of_a_call_reports_on_every_machine(
    name: str, workspace: Path, exchange: Path
) -> None:
    machine: Machine = MACHINES[name](await asyncio.to_thread(probe))
    is_off = name == "without any"
    heard: list[Progress] = []

    with ProgressPipe(exchange / "progress", PLAIN.value, heard.append) as pipe:
        ended = await run(
            SCRIPT + ("" if is_off else HARM),
            pipe,
            machine,
            workspace,
            sandbox="off" if is_off else "on",
        )

    assert ended.outcome in ("ok", "failed")
    assert heard[-1] == Progress(2, 2)
    if not is_off:
        assert ended.stdout.text == ""
    (exchange / "progress").chmod(0o700)
    assert [*(exchange / "progress").iterdir()] == []
    assert [*exchange.iterdir()] == [exchange / "progress"]


async def run(
    script: str, pipe: ProgressPipe, machine: Machine, workspace: Path, sandbox: str
) -> Ended:
    folder = Path(pipe.path).parents[1]
    command = Command(
        argv=("/bin/bash", "-c", script),
        env={"SKILLPOUCH_PROGRESS": pipe.path, "PATH": "/usr/bin:/bin"},
        cwd=workspace,
    )
    confinement = Confinement(
        workspace=workspace, readable=(folder,), pipes=folder / "progress", sandbox=sandbox
    )
    async with Engine(machine=machine, grace_seconds=0.1) as engine:
        return await engine.run(command, confinement)


@pytest.mark.slow
async def test_a_program_that_floods_its_progress_keeps_nobody_busy(
    workspace: Path, exchange: Path
) -> None:
    heard: list[Progress] = []
    script = """
    for i in {1..20000}; do echo '{"done": '$i', "total": 20000}'; done >> "$SKILLPOUCH_PROGRESS"
    """

    with ProgressPipe(exchange / "progress", PLAIN.value, heard.append) as pipe:
        ended = await run(script, pipe, await asyncio.to_thread(probe), workspace, sandbox="on")

    numbers = [each.done for each in heard]
    assert (ended.outcome, numbers[-1]) == ("ok", 20_000)
    assert numbers == sorted(set(numbers))
    assert len(numbers) < 200  # one for each piece that is read


async def test_a_listener_that_fails_is_not_asked_again(
    exchange: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[Progress] = []

    def tell(progress: Progress) -> None:
        asked.append(progress)
        raise RuntimeError("mine")

    with ProgressPipe(exchange / "progress", PLAIN.value, tell) as pipe:
        for number in (1, 2):
            with Path(pipe.path).open("a") as file:
                file.write(f'{{"done": {number}}}\n')
            pipe._hear()

    assert asked == [Progress(1)]
    assert "progress is not reported any more" in caplog.text


async def test_where_no_pipe_can_be_made_nothing_is_reported(tmp_path: Path) -> None:
    with ProgressPipe(tmp_path / "nowhere", PLAIN.value, lambda _: None) as pipe:
        assert pipe.path == ""
