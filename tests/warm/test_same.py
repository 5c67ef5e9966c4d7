"""A warm call gives what a fresh Python gives: status, output, errors and files, byte for byte."""

import pytest

from tests.warm.cases import endings, errors, interpreter, processes, streams, surroundings
from tests.warm.ways import Ways, merged

CASES = merged(*(m.CASES for m in (endings, errors, interpreter, processes, streams, surroundings)))
SIBLINGS = {**endings.SIBLINGS, **errors.SIBLINGS, **interpreter.SIBLINGS}


@pytest.mark.parametrize("name", CASES)
def test_a_warm_call_gives_what_a_fresh_python_gives(ways: Ways, name: str) -> None:
    script = ways.write(name, CASES[name], SIBLINGS)

    cold = ways.cold(script)

    assert [ways.warm(script) for _ in range(3)] == [cold] * 3
