"""Argparse programs nobody here wrote, read, and compared with the parsers they really build."""

import sys
from functools import cache

import pytest

from skillpouch.signatures.python.reading import read_python
from tests.signatures.python.real_programs import (
    PACKAGES,
    Program,
    differences,
    find_programs,
    record,
)

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive, pytest.mark.timeout(300)]


@cache
def programs() -> list[Program]:
    if not PACKAGES.is_dir():
        pytest.fail("there are no programs to compare with; run `make programs`")
    return record(find_programs())


@cache
def found() -> dict[Program, list[str]]:
    """Return what is different about each program, nothing for most."""
    return {one: list(differences(one, read_python(one.text))) for one in programs()}


def test_programs_with_literal_arguments_are_read_as_they_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    literal = {one: different for one, different in found().items() if one.is_literal}
    equal = [one for one, different in literal.items() if not different]
    lines = [f"{one.path}: {'; '.join(literal[one])}" for one in literal if literal[one]]
    lines.append(
        f"{len(programs())} programs reached their parser, {len(literal)} of them with literal "
        f"arguments; {len(equal)} read complete and equal ({len(equal) / len(literal):.1%})"
    )
    with capsys.disabled():
        sys.stdout.write("\n".join(["", *lines, ""]))

    assert len(literal) >= 200
    assert len(equal) / len(literal) >= 0.97


def test_what_is_read_with_certainty_is_never_wrong() -> None:
    wrong = {
        str(one.path): different
        for one, different in found().items()
        # Choices that another module makes are left out, which asks less of a caller, not more.
        if any(
            not text.startswith("uncertain:") and "read as None" not in text for text in different
        )
    }

    assert wrong == {}
