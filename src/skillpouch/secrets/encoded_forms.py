"""The forms in which a secret is commonly written: plain, quoted, escaped, encoded."""

import base64
import html
import json
import re
import shlex
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote, quote_plus

# From this length on, a part of a secret counts as a secret: a line of a key file, a text inside a
# JSON key, a run of letters and digits (which no quoting changes). A shorter part may be a brace or
# an ordinary word.
_PART_CHARACTERS = 16
_LINE_CHARACTERS = 40
_RUN = re.compile(r"[A-Za-z0-9]{16,}")
_FEWEST_BYTES = 6
_DEEPEST = 100  # no real key file is nested deeper
# The characters that quoting adds or removes, in every language and at every level of quoting.
QUOTING = b"\\'\"\r\n"
BLANKS = b" \t"
_NO_QUOTING = str.maketrans("", "", QUOTING.decode())


def forms_of(value: str) -> set[bytes]:
    """Return every form of a secret that is searched for without changes, as bytes of UTF-8."""
    texts: set[str] = set()
    found = set(wrapping_forms_of(value))
    for text in _secrets_in(value):
        texts |= {text, *_lines(text), *_RUN.findall(text), *_json_escaped(text)}
        texts |= {*_percent_encoded(text), *_html(text), *_shell(text), *_doubled_quotes(text)}
        found |= {*_every_byte(bytes_of(text))}
    return found | {bytes_of(value)} | {_utf8(text) for text in texts}


def wrapping_forms_of(value: str) -> set[bytes]:
    """Return the forms that programs break into lines: base64, hex, and long values."""
    found: set[bytes] = set()
    for text in _secrets_in(value):
        raw = bytes_of(text)
        digits = raw.hex().encode()
        found |= {*_base64(raw), digits, digits.upper()}
        flat = raw.translate(None, b"\r\n")
        found |= {flat} if len(flat) >= _PART_CHARACTERS else set()
    return found


def unquoted_forms_of(value: str) -> set[bytes]:
    """Return what is left of the quoted forms of a secret when all `QUOTING` is taken out.

    A quote or a backslash is written as itself, doubled, or with backslashes before it, once for
    each time that a text was quoted: without these characters, all of them are one form. Other
    characters that a language escapes have one form per spelling.
    """
    texts: set[str] = set()
    for text in _secrets_in(value):
        texts |= {escaped.translate(_NO_QUOTING) for escaped in _escaped(text)}
        texts |= {line.translate(_NO_QUOTING) for line in _lines(text)}
        # A short text of letters and digits is the same unquoted, and may be part of an ordinary
        # word.
        bare = text.isalnum() and text.isascii() and len(text) < _PART_CHARACTERS
        texts -= {text} if bare else set()
    return {form for form in map(_utf8, texts) if len(form) >= _FEWEST_BYTES}


def unspaced_forms_of(value: str) -> set[bytes]:
    """Return the forms of `unquoted_forms_of` with the blanks removed, too.

    pprint, YAML and terminals break long values into indented lines.
    """
    if len(value) <= _LINE_CHARACTERS and not any(letter.isspace() for letter in value):
        return set()  # no printer breaks so short a value, and each search costs time
    found = {form.translate(None, BLANKS) for form in unquoted_forms_of(value)}
    return {form for form in found if len(form) >= _PART_CHARACTERS}


def bytes_of(value: str) -> bytes:
    """Return a secret as a program writes it; the environment may hold bytes that are not text."""
    try:
        return value.encode(errors="surrogateescape")
    except UnicodeEncodeError:  # a surrogate that does not stand for a byte
        return value.encode(errors="surrogatepass")


def _utf8(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _secrets_in(value: str) -> set[str]:
    """Return a secret, and the texts that are secrets because they are parts of it."""
    return {value, *_as_decoded(bytes_of(value)), *_texts_of_json(value)}


def _texts_of_json(value: str) -> Iterator[str]:
    """Yield the long texts of a key in JSON form, which may itself be in base64."""
    todo = [(_parsed(value), 0)]
    while todo:
        item, depth = todo.pop()
        if isinstance(item, str) and depth and len(item.strip()) >= _PART_CHARACTERS:
            yield item.strip()
        inner = item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
        if depth < _DEEPEST:
            todo += [(each, depth + 1) for each in inner]


def _parsed(value: str) -> Any:
    text = value
    if not value.startswith(("{", "[")):
        try:
            text = base64.b64decode(value, validate=True).decode()
        except ValueError:
            return None
    try:
        return json.loads(text) if text.lstrip().startswith(("{", "[")) else None
    except (ValueError, RecursionError):
        return None


def _as_decoded(raw: bytes) -> Iterator[str]:
    """Yield what a binary secret becomes when output is decoded, if enough of it is left."""
    text = raw.decode(errors="replace")
    if len(text.replace("\ufffd", "")) >= _PART_CHARACTERS:
        yield text


def _lines(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        bare = line.strip()
        # The first and last line of a PEM file are the same in every key, so they are not secret.
        if len(bare) >= _PART_CHARACTERS and not bare.startswith("-----"):
            yield bare


def _base64(raw: bytes) -> Iterator[bytes]:
    """Yield the base64 forms of a secret, for every position in a longer text.

    Three bytes become four characters, so there are three alignments. Characters that also hold
    bits of a neighbouring byte are left out; the last one is kept in the forms for a secret at the
    end.
    """
    for lead in range(3):
        whole = base64.b64encode(bytes(lead) + raw)
        first = (lead * 8 + 5) // 6
        inside = (lead + len(raw)) * 8 // 6
        for found in {whole[first:inside], whole[first:].rstrip(b"="), whole[first:]}:
            yield found
            yield found.replace(b"+", b"-").replace(b"/", b"_")


def _json_escaped(text: str) -> Iterator[str]:
    for ascii_only in (True, False):
        once = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        for form in {once, once.replace("/", "\\/")}:
            yield form
            yield json.dumps(form)[1:-1]  # JSON inside JSON


def _escaped(text: str) -> Iterator[str]:
    """Yield a text with line ends and other characters escaped, as each language spells them."""
    yield text
    lines = text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    yield lines
    if not lines.isascii():
        yield from (_each(_NOT_ASCII, spell, lines) for spell in _SPELLINGS)
    # First JSON that is safe inside HTML; then encoders that escape all but letters and digits.
    yield _each(_MARKUP, _as_utf16, _each(_NOT_ASCII, _as_utf16, lines))
    for spell in (_as_utf16, _as_bytes, _as_octal):
        for pattern in (_NOT_ALPHANUMERIC, _ANY):
            yield _each(pattern, spell, text)
            yield _each(pattern, _in_capitals(spell), text)


def _each(pattern: re.Pattern[str], spell: Callable[[str], str], text: str) -> str:
    """Return the text with each character that fits spelled differently."""
    return text.translate({ord(c): spell(c) for c in set(text) if pattern.match(c)})


def _as_utf16(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _as_bytes(character: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in bytes_of(character))


def _as_octal(character: str) -> str:
    return "".join(f"\\{byte:03o}" for byte in bytes_of(character))


def _as_python(character: str) -> str:
    return ascii(character)[1:-1]


def _as_ruby(character: str) -> str:
    code = f"{ord(character):04X}"
    return f"\\u{code}" if len(code) == 4 else f"\\u{{{code}}}"  # noqa: PLR2004


def _in_braces(letter: str) -> Callable[[str], str]:
    return lambda character: f"\\{letter}{{{ord(character):x}}}"


def _in_capitals(spell: Callable[[str], str]) -> Callable[[str], str]:
    return lambda character: re.sub(r"[0-9a-f]+", lambda m: m[0].upper(), spell(character))


def _percent_encoded(text: str) -> Iterator[str]:
    if text.isascii() and text.isalnum():
        return
    # Nothing; a path; what JavaScript does not encode: encodeURIComponent, forms, encodeURI,
    # escape.
    for safe in ("", "/", "!*'()", "*", ";/?:@&=+$,#!*'()", "@*/+"):
        for form in (
            quote(text, safe=safe, errors="surrogatepass"),
            quote_plus(text, safe=safe, errors="surrogatepass"),
        ):
            for spelled in (form, form.replace("~", "%7E"), _lower_hex(form)):
                yield spelled
                yield quote(spelled, safe="")
                yield quote(spelled, safe="/")
    yield _each(_NOT_ALPHANUMERIC, lambda c: "".join(f"%{b:02X}" for b in bytes_of(c)), text)


def _lower_hex(text: str) -> str:
    first, *rest = text.split("%")
    return "%".join([first, *(part[:2].lower() + part[2:] for part in rest)])


def _every_byte(raw: bytes) -> Iterator[bytes]:
    """Yield the ways to write a secret as a list of numbers."""
    for digits in (raw.hex(" "), raw.hex(" ").upper()):
        for mark, between in (("%", "%"), ("", ":"), ("", " "), ("0x", ", 0x"), ("0x", ",0x")):
            yield (mark + digits.replace(" ", between)).encode()
    yield raw[:50].hex(" ").encode()  # Node prints the first 50 bytes of a buffer
    for between in (", ", ",", " "):
        yield between.join(map(str, raw)).encode()
    yield " ".join(f"{byte:03o}" for byte in raw).encode()


def _html(text: str) -> Iterator[str]:
    if text.isascii() and not _IN_HTML.search(text):
        return
    bare = html.escape(text, quote=False)
    for once in (bare, text.replace("&", "&#38;").replace("<", "&#60;").replace(">", "&#62;")):
        for apostrophe in ("'", "&#x27;", "&#39;", "&apos;"):
            for double in ('"', "&quot;", "&#34;", "&#x22;"):
                form = once.replace("'", apostrophe).replace('"', double)
                yield form
                yield html.escape(form)
                yield form.encode("ascii", "xmlcharrefreplace").decode()


def _shell(text: str) -> Iterator[str]:
    yield shlex.quote(text)[1:-1] if shlex.quote(text) != text else text
    yield text.replace("'", "'\\''")
    in_double_quotes = text
    for special in '\\"$`':
        in_double_quotes = in_double_quotes.replace(special, f"\\{special}")
    yield in_double_quotes
    yield "".join(c if c.isalnum() or c in "_@%+=:,./-" else f"\\{c}" for c in text)


def _doubled_quotes(text: str) -> Iterator[str]:
    """Yield the text with its quotes doubled, as CSV, SQL and YAML do."""
    yield text.replace('"', '""')
    yield text.replace("'", "''")


_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_IN_HTML = re.compile(r"[<>&'\"]")
_MARKUP = re.compile(r"[<>&'\u2028\u2029]")
_NOT_ALPHANUMERIC = re.compile(r"[^A-Za-z0-9]")
_ANY = re.compile(r".", re.DOTALL)
_SPELLINGS: tuple[Callable[[str], str], ...] = (
    _as_utf16,
    _as_bytes,
    _as_octal,
    _as_python,
    _in_braces("x"),
    _in_braces("u"),
    _in_capitals(_as_python),  # YAML
    lambda c: c if ord(c) < 0x10000 else f"\\U{ord(c):08X}",  # noqa: PLR2004 - YAML in UTF-8
    _in_capitals(_as_utf16),
    _in_capitals(_as_bytes),
    _as_ruby,
)
