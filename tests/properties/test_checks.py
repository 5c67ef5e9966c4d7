import json
import re
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillpouch.checks.report import find_hidden_text, find_shadowed_modules
from skillpouch.checks.secrets import find_secrets
from skillpouch.checks.strict import skill_md_problems, tools_json_problems
from skillpouch.text import clean

pytestmark = pytest.mark.slow

without_deadline = settings(deadline=None)

# Whatever meets on purpose: escapes, joiners, selectors, tags, flags, and what they join.
PIECES = st.sampled_from(
    [
        *("\x1b", "[", "]", "0", "m", "\x07", "\\", "\x9b", "\x9d", "\x9c", "\x00", "\r", "\n"),
        *("\u200b", "\u200c", "\u200d", "\ufe0f", "\ufe00", "\u034f", "\u180b", "\u180e", "\u00ad"),
        *("\u202e", "\u2066", "\u200e", "\ufeff", "\U000e0100", "\U000e0001", "\U000e0067"),
        *("\U000e0062", "\U000e0073", "\U000e007f", "\U0001f3f4", "\U0001f468", "\u2764"),
        *("\u0645", "\u0915", "\u094d", "\u0e01", "\u845b", "\u0301", "a", "1", " ", "\t"),
    ]
)
HIDING = st.lists(PIECES, max_size=30).map("".join)
TEXT = st.one_of(st.text(), HIDING)

WORDS = st.sampled_from(
    [
        *("---", "\n", "name: ", "description: ", "metadata:", "  ", "- ", "a", "x: y", "[", "{"),
        *("&a ", "*a", "!t ", "'", '"', "|", ">", "#", "? ", "\t", "\r\n", "\ufeff", "é", "\x00"),
    ]
)
FRONTMATTER = st.lists(WORDS, max_size=40).map(lambda words: "---\n" + "".join(words) + "\n---\n")

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.sampled_from(["name", "description", "script", "parameters", "type", "x"]), inner
        )
    ),
    max_leaves=20,
)

PREFIXES = st.sampled_from(
    ["sk-", "sk-ant-", "ghp_", "xoxb-", "AIza", "hf_", "npm_", "token = '", "api_key='", ""]
)
SECRETS = st.text(string.ascii_letters + string.digits, min_size=20, max_size=60)


@without_deadline
@given(TEXT)
def test_cleaning_twice_is_cleaning_once(text: str) -> None:
    assert clean(clean(text)) == clean(text)


@without_deadline
@given(TEXT)
def test_clean_text_is_never_longer(text: str) -> None:
    assert len(clean(text)) <= len(text)


@without_deadline
@given(st.text(string.ascii_letters + string.digits + string.punctuation + " \t\n"))
def test_plain_text_is_clean(text: str) -> None:
    assert clean(text) == text


@without_deadline
@given(TEXT)
def test_clean_text_holds_no_control_but_line_ends_and_tabs(text: str) -> None:
    assert re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", clean(text)) is None


@without_deadline
@given(TEXT)
def test_nothing_hidden_is_left_after_cleaning(text: str) -> None:
    assert find_hidden_text("a", clean(text)) == []


@without_deadline
@given(TEXT)
def test_text_without_a_problem_changes_only_at_its_ends_of_line_and_page(text: str) -> None:
    if find_hidden_text("a", text) == []:
        shown = re.sub(r"\r\n?", "\n", text.replace("\x0c", "")).removeprefix("\ufeff")
        assert clean(text) == shown


@without_deadline
@given(TEXT)
def test_hidden_text_is_reported_on_lines_that_exist(text: str) -> None:
    lines = [problem.line for problem in find_hidden_text("a", text)]

    assert lines == sorted({line for line in lines if line and line <= text.count("\n") + 1})


@without_deadline
@given(PREFIXES, SECRETS, st.text())
def test_a_message_never_holds_more_than_four_characters_of_a_secret(
    prefix: str, secret: str, around: str
) -> None:
    text = f"{around}\n{prefix}{secret}' {around}"

    for problem in find_secrets("SKILL.md", text):
        shown = re.search(r"\((.*)…\)", problem.message)
        assert shown is None or len(shown[1]) <= 4
        assert secret[:5] not in problem.message


@without_deadline
@given(st.text(), st.text())
def test_any_text_gives_a_list(path: str, text: str) -> None:
    assert isinstance(find_secrets(path, text), list)
    assert isinstance(find_shadowed_modules(path, text), list)


@without_deadline
@given(st.one_of(st.binary(), FRONTMATTER.map(str.encode)), st.text())
def test_any_bytes_as_skill_md_give_strict_problems(raw: bytes, directory: str) -> None:
    problems = skill_md_problems("SKILL.md", raw, directory)

    assert all(p.code.startswith("strict-") and p.severity == "warning" for p in problems)


@without_deadline
@given(st.one_of(st.binary(), st.text().map(lambda text: text.encode("utf-8", "surrogatepass"))))
def test_any_bytes_as_tools_json_give_strict_problems(raw: bytes) -> None:
    problems = tools_json_problems("tools.json", raw)

    assert all(p.code.startswith("strict-") and p.severity == "warning" for p in problems)


@settings(deadline=None, max_examples=50)
@given(st.lists(JSON, max_size=5), st.sampled_from([None, 2]))
def test_any_array_as_tools_json_gives_problems_on_lines_that_exist(
    tools: list[object], indent: int | None
) -> None:
    text = json.dumps(tools, indent=indent)

    for problem in tools_json_problems("tools.json", text.encode()):
        assert problem.line is None or 1 <= problem.line <= text.count("\n") + 1
