"""Fixtures for pytest; a project turns them on with `-p skillpouch.testing.fixtures`."""

import re
from collections.abc import Callable, Generator, Iterator
from functools import partial
from pathlib import Path

import pytest

from skillpouch.results import ToolResult
from skillpouch.testing.cassette import Cassette, Mode, cassette
from skillpouch.testing.running import run_tool

_HELP = (
    "what skillpouch_cassette does: replay a cassette that exists (auto), record anew, only replay"
)
_FAILED = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--skillpouch-cassettes`."""
    parser.getgroup("skillpouch").addoption(
        "--skillpouch-cassettes", choices=("auto", "record", "replay"), default="auto", help=_HELP
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Forget the recorded calls of a failed test: the recording is incomplete."""
    report = yield
    if report.when == "call" and report.failed:
        item.stash[_FAILED] = True
    return report


@pytest.fixture
def run_skill_tool(tmp_path: Path) -> Callable[..., ToolResult]:
    """Return `run_tool` with the test's own folder as the workspace."""
    return partial(run_tool, workspace=tmp_path)


@pytest.fixture
def skillpouch_cassette(request: pytest.FixtureRequest) -> Iterator[Cassette]:
    """Answer the calls of one test from `cassettes/<module>/<test>.json` beside it."""
    mode: Mode = request.config.getoption("--skillpouch-cassettes")
    name = re.sub(r"[^\w.-]+", "_", request.node.name)
    path = request.path.parent / "cassettes" / request.path.stem / f"{name}.json"
    with cassette(path, mode=mode) as made:
        yield made
        if request.node.stash.get(_FAILED, False):
            made.forget()
