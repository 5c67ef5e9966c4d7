"""A secret does not survive in any of its forms, and nothing else is touched."""

import base64
import html
import itertools
import json
import shlex
import urllib.parse
from collections.abc import Callable

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from skillpouch.secrets.redaction import Redactor

TOKEN = "s3cr3t/t+ken'&\"é x"
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
# Letters of the mark itself would be found in it again.
SECRETS = TEXTS.filter(lambda text: len(text.strip()) >= 6 and text.strip() not in "[redacted KEY]")

FORMS: dict[str, Callable[[str], str]] = {
    "raw": str,
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 without padding": lambda text: base64.b64encode(text.encode()).decode().rstrip("="),
    "url-safe base64": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    "percent": lambda text: urllib.parse.quote(text, safe=""),
    "percent, lower case": lambda text: _lower_percent(urllib.parse.quote(text, safe="")),
    "percent of a path": urllib.parse.quote,
    "form": urllib.parse.quote_plus,
    "json": lambda text: json.dumps(text)[1:-1],
    "json of unicode": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "json in json": lambda text: json.dumps(json.dumps(text))[3:-3],
    "hex": lambda text: text.encode().hex(),
    "upper hex": lambda text: text.encode().hex().upper(),
    "html": html.escape,
    "html text": lambda text: html.escape(text, quote=False),
    "shell": lambda text: shlex.quote(text).removeprefix("'").removesuffix("'"),
}


def _lower_percent(text: str) -> str:
    first, *rest = text.split("%")
    return "".join([first, *(f"%{part[:2].lower()}{part[2:]}" for part in rest)])


@pytest.mark.promise("sec-1")
@pytest.mark.parametrize("form", FORMS)
def test_a_secret_is_replaced_by_its_name(form: str) -> None:
    redactor = Redactor({"KEY": TOKEN})
    written = FORMS[form](TOKEN)

    assert redactor.text(f"<{written}>") == "<[redacted KEY]>"
    assert redactor.data(f"<{written}>".encode()) == b"<[redacted KEY]>"
    assert redactor.value({written: [written, 1]}) == {"[redacted KEY]": ["[redacted KEY]", 1]}


@pytest.mark.slow
@pytest.mark.promise("sec-1")
@pytest.mark.parametrize("form", FORMS)
@given(secret=SECRETS, before=TEXTS, after=TEXTS)
@settings(deadline=None, max_examples=30)
def test_no_secret_survives(form: str, secret: str, before: str, after: str) -> None:
    written = FORMS[form](secret.strip())

    redacted = Redactor({"KEY": secret}).text(before + written + after)

    assert written not in redacted
    assert "[redacted KEY]" in redacted


@pytest.mark.slow
@pytest.mark.promise("sec-1")
@given(secret=SECRETS, before=st.binary(max_size=10), after=st.binary(max_size=10))
@settings(deadline=None, max_examples=60)
def test_no_secret_survives_inside_longer_base64(secret: str, before: bytes, after: bytes) -> None:
    raw = secret.strip().encode()
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        whole = encode(before + raw + after).decode()
        # The characters that hold nothing but bits of the secret.
        inside = whole[-(-len(before) * 8 // 6) : (len(before) + len(raw)) * 8 // 6]

        assert inside not in Redactor({"KEY": secret}).text(whole)


@pytest.mark.parametrize("width", [19, 64, 76])
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_base64_that_is_broken_into_lines_is_found(width: int, line_end: bytes) -> None:
    secret = "a long private key, longer than a line: " * 4
    whole = base64.b64encode(secret.encode())
    wrapped = line_end.join(whole[at : at + width] for at in range(0, len(whole), width))

    redacted = Redactor({"KEY": secret}).data(b"key:\n" + wrapped + b"\nend\n")

    assert redacted.startswith(b"key:\n[redacted KEY]")
    assert redacted.endswith(b"\nend\n")
    assert len(redacted) < 40


@given(text=st.text(alphabet="abc", min_size=0, max_size=200))
@settings(deadline=None)
def test_text_without_secrets_is_unchanged(text: str) -> None:
    redactor = Redactor({"KEY": "hunter2hunter2", "WORD": "q1w2", "DEBUG": "1"})

    assert redactor.text(text) == text
    assert redactor.data(text.encode()) == text.encode()
    assert redactor.value([text]) == [text]


@pytest.mark.slow
@pytest.mark.promise("sec-1")
@given(
    parts=st.lists(
        st.sampled_from([b"hunter2", b"hunter22", b"unter", b"pin7", b" ", b"\n", b"x", b"a" * 9])
        | st.binary(max_size=4),
        max_size=20,
    ),
    cuts=st.lists(st.integers(0, 100), max_size=20),
)
@settings(deadline=None, max_examples=150)
def test_pieces_together_are_what_the_whole_would_be(parts: list[bytes], cuts: list[int]) -> None:
    secrets = {"A": "hunter2", "B": "hunter22", "C": "pin7", "D": "aaaaaa", "E": "2hunter2x"}
    redactor = Redactor(secrets)
    whole = b"".join(parts)
    stream = redactor.stream()
    places = sorted({0, *(min(cut, len(whole)) for cut in cuts), len(whole)})

    shown = [stream.feed(whole[a:b]) for a, b in itertools.pairwise(places)]

    assert b"".join([*shown, stream.close()]) == redactor.data(whole)


@pytest.mark.parametrize("form", FORMS)
def test_a_secret_that_comes_byte_by_byte_is_never_shown(form: str) -> None:
    stream = Redactor({"KEY": TOKEN}).stream()

    shown = [stream.feed(bytes([byte])) for byte in f"a{FORMS[form](TOKEN)}.z".encode()]

    assert b"".join([*shown, stream.close()]) == b"a[redacted KEY].z"


def test_what_cannot_become_a_secret_is_shown_at_once() -> None:
    stream = Redactor({"KEY": "hunter2hunter2"}).stream()

    assert stream.feed(b"compiling 3 files\n") == b"compiling 3 files\n"


def test_a_stream_keeps_little_however_long_the_run() -> None:
    stream = Redactor({"KEY": "aaaaaaaa"}).stream()

    shown = [stream.feed(b"a" * 1000) for _ in range(100)]

    assert b"".join([*shown, stream.close()]) == b"[redacted KEY]"
    assert len(stream._held) < 100


@pytest.mark.promise("sec-1")
@pytest.mark.parametrize(
    "hidden", ["\x1b[0m", "\u200b", "\u202e", "\x00", "\x1b]0;x\x07", "\u00ad"]
)
def test_a_secret_with_a_hidden_character_inside_is_found(hidden: str) -> None:
    redactor = Redactor({"KEY": "hunter2hunter2"})

    assert redactor.text(f"a hunter2{hidden}hunter2 z") == "a [redacted KEY] z"
    assert redactor.text(f"a hunter3{hidden}hunter2 z") == f"a hunter3{hidden}hunter2 z"


def test_the_longest_secret_wins() -> None:
    redactor = Redactor({"SHORT": "hunter2", "LONG": "hunter2hunter2"})

    assert redactor.text("hunter2hunter2 hunter2") == "[redacted LONG] [redacted SHORT]"


def test_overlapping_secrets_leave_no_rest() -> None:
    redactor = Redactor({"ONE": "abcdefgh", "TWO": "efghijkl"})

    assert redactor.text("-abcdefghijkl-") == "-[redacted ONE]-"


def test_a_short_value_is_found_as_a_whole_word_only() -> None:
    redactor = Redactor({"PIN": "1234"})

    assert redactor.text("1234, 51234, x1234, pin=1234") == (
        "[redacted PIN], 51234, x1234, pin=[redacted PIN]"
    )
    assert redactor.unprotected == ()


def test_a_value_that_is_too_short_is_left_alone_and_named() -> None:
    redactor = Redactor({"DEBUG": "1", "MODE": "yes", "BLANK": "      ", "EMPTY": ""})

    assert redactor.text("1 yes       ") == "1 yes       "
    assert redactor.unprotected == ("DEBUG", "MODE")


def test_a_number_that_is_a_secret_is_redacted_in_a_value() -> None:
    redactor = Redactor({"KEY": "12345678"})

    assert redactor.value({"a": 12345678, "b": 1.5, "c": None, "d": True}) == {
        "a": "[redacted KEY]",
        "b": 1.5,
        "c": None,
        "d": True,
    }


def test_a_value_nested_deeper_than_the_stack_is_redacted() -> None:
    value: object = "hunter2"
    for _ in range(5000):
        value = [value]

    redacted = Redactor({"KEY": "hunter2"}).value(value)

    while isinstance(redacted, list):
        [redacted] = redacted
    assert redacted == "[redacted KEY]"


def test_every_line_of_a_key_file_is_a_secret() -> None:
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG\n9w0BAQEFAASCBKcwggSj\n-----END KEY-----\n"

    redacted = Redactor({"KEY": key}).text("  9w0BAQEFAASCBKcwggSj!\n-----BEGIN KEY-----")

    assert redacted == "  [redacted KEY]!\n-----BEGIN KEY-----"


def test_a_secret_that_is_no_text_is_found_in_bytes_and_in_text() -> None:
    raw = b"\xff\xfe-binary-secret-value-\x80"
    redactor = Redactor({"KEY": raw.decode(errors="surrogateescape")})

    assert redactor.data(b"<" + raw + b">") == b"<[redacted KEY]>"
    assert redactor.text("<" + raw.decode(errors="replace") + ">") == "<[redacted KEY]>"


def test_a_redactor_does_not_show_what_it_hides() -> None:
    assert repr(Redactor({"KEY": "hunter2", "PIN": "1234"})) == "Redactor(KEY, PIN)"


@pytest.mark.slow
@given(text=st.text(max_size=50), secret=st.text(max_size=12))
@settings(deadline=None, max_examples=150)
def test_any_text_and_any_secret_give_text(text: str, secret: str) -> None:
    assume(secret.strip())

    assert isinstance(Redactor({"KEY": secret}).text(text), str)
