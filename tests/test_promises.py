import re
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "security.md"
IDS = re.compile(r"\b(?:fs|net|proc|env|limit)-\d+\b")


def test_every_promise_has_a_test_and_every_tested_promise_is_on_the_page() -> None:
    promised = set(re.findall(r"^\| ([a-z]+-\d+) \|", PAGE.read_text(), re.MULTILINE))

    marked: set[str] = set()
    for path in TESTS.rglob("*.py"):
        text = path.read_text()
        marked |= set(re.findall(r'promise\("([a-z]+-\d+)"\)', text))
        if path.name == "attacks.py":
            marked |= set(IDS.findall(text))

    assert promised == marked
