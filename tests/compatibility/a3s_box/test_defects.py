"""Each known defect of the original has a test of the right behaviour, and the table says which."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[2]
_ROW = re.compile(r"^\| (\d+)(?: \*)? \| [^|]+ \| (?:`([^`]+)`|(comes with \w+)) \|$", re.MULTILINE)


def test_every_defect_has_a_test_that_is_there() -> None:
    rows = _ROW.findall(Path(__file__).with_name("defects.md").read_text())

    assert [int(number) for number, _, _ in rows] == list(range(1, 60))
    for _, test, later in rows:
        if not later:
            file, _, name = test.partition("::")
            assert f"def {name}(" in (TESTS / file).read_text(), test
