"""A warm call gives what a fresh Python gives: status, output, errors and files, byte for byte."""

import pytest

from tests.effort import all_but_exhaustive
from tests.execution.preforked.cases import (
    endings,
    errors,
    hooks,
    interpreter,
    last_words,
    library,
    processes,
    streams,
    surroundings,
    texts,
    threads,
)
from tests.execution.preforked.exceptions import ALWAYS_COLD, DIFFERENT, NOT_BARE
from tests.execution.preforked.ways import Ways, merged

pytestmark = pytest.mark.slow

TABLES = (
    *(endings, last_words, errors, hooks, streams, texts),
    *(interpreter, library, processes, threads, surroundings),
)
CASES = merged(*(table.CASES for table in TABLES))
# Some of each table; `make test-all` compares every case with a bare Python.
FIRST = {name for table in TABLES for name in list(table.CASES)[::4]}
SIBLINGS = {**last_words.SIBLINGS, **errors.SIBLINGS, **interpreter.SIBLINGS}


@pytest.mark.parametrize("name", [name for name in CASES if name not in DIFFERENT])
def test_a_warm_call_gives_what_a_fresh_python_gives(ways: Ways, name: str) -> None:
    script = ways.write(name, CASES[name], SIBLINGS)
    cold = ways.cold(script)

    if name in ALWAYS_COLD:
        ended = ways.end(script)
        assert (ended.warm, ended.cold_because) == (False, ALWAYS_COLD[name])
        assert ways.seen(ended) == cold
    else:
        assert [ways.warm(script) for _ in range(3)] == [cold] * 3


@pytest.mark.parametrize(
    "name", all_but_exhaustive((name for name in CASES if name not in NOT_BARE), FIRST)
)
def test_a_confined_call_gives_what_a_bare_python_gives(ways: Ways, name: str) -> None:
    script = ways.write(name, CASES[name], SIBLINGS)

    assert ways.cold(script) == ways.bare(script)


@pytest.mark.parametrize("name", DIFFERENT)
def test_what_differs_is_known_and_nothing_else(ways: Ways, name: str) -> None:
    script = ways.write(name, CASES[name], SIBLINGS)
    known = DIFFERENT[name]

    cold, warm = ways.cold(script), ways.warm(script)

    assert warm != cold
    assert known.adjust(warm) == known.adjust(cold)
    assert known.why


def test_every_exception_is_a_case() -> None:
    assert {*DIFFERENT, *ALWAYS_COLD, *NOT_BARE} <= set(CASES)
