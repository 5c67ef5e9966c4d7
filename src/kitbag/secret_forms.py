"""The ways in which a secret is commonly written down: as it is, quoted, escaped and encoded."""

import html
import json
import shlex
from base64 import b64encode
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

# A line of a key file is a secret of its own; a shorter one may be a brace or an ordinary word.
_LINE_CHARACTERS = 16


def forms_of(value: str) -> set[bytes]:
    """Return every form of a secret that is looked for, as bytes of UTF-8."""
    raw = bytes_of(value)
    texts = set()
    for text in (value, *_as_decoded(raw)):
        texts |= {text, *_lines(text), *_json_escaped(text), *_percent_encoded(text)}
        texts |= {*_html(text), *_shell(text)}
    found = {text.encode(errors="surrogatepass") for text in texts}
    return found | {raw, *wrapping_forms_of(value), *_every_byte_percent_encoded(raw)}


def wrapping_forms_of(value: str) -> set[bytes]:
    """Return the forms that programs break into lines: base64, hex, and long values."""
    raw = bytes_of(value)
    digits = raw.hex().encode()
    found = {*_base64(raw), digits, digits.upper()}
    flat = raw.translate(None, b"\r\n")
    return found | {flat} if len(flat) >= _LINE_CHARACTERS else found


def bytes_of(value: str) -> bytes:
    """Return a secret as a program writes it; the environment may hold bytes that are no text."""
    try:
        return value.encode(errors="surrogateescape")
    except UnicodeEncodeError:  # a surrogate that never was a byte
        return value.encode(errors="surrogatepass")


def _as_decoded(raw: bytes) -> Iterator[str]:
    """Yield what a secret that is no text becomes when output is decoded, if enough is left."""
    text = raw.decode(errors="replace")
    if len(text.replace("\ufffd", "")) >= _LINE_CHARACTERS:
        yield text


def _lines(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        bare = line.strip()
        # The first and last line of a key in PEM form are no secret: all keys have them.
        if len(bare) >= _LINE_CHARACTERS and not bare.startswith("-----"):
            yield bare


def _base64(raw: bytes) -> Iterator[bytes]:
    """Yield what base64 makes of a secret, wherever in a longer text it stands.

    Three bytes become four characters, so there are three ways to fall into step. The characters
    that hold bits of a neighbour are left out, at the end except when nothing follows.
    """
    for lead in range(3):
        whole = b64encode(bytes(lead) + raw)
        first = (lead * 8 + 5) // 6
        inside = (lead + len(raw)) * 8 // 6
        for found in {whole[first:inside], whole[first:].rstrip(b"="), whole[first:]}:
            yield found
            yield found.replace(b"+", b"-").replace(b"/", b"_")


def _json_escaped(text: str) -> Iterator[str]:
    units = text.encode("utf-16-be", "surrogatepass")
    escaped = "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
    yield escaped
    yield escaped.upper().replace("U", "u")
    for ascii_only in (True, False):
        once = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        for form in {once, once.replace("/", "\\/")}:
            yield form
            yield json.dumps(form)[1:-1]  # JSON inside JSON


def _percent_encoded(text: str) -> Iterator[str]:
    for safe in ("", "/", "!*'()"):  # strict; a path; what JavaScript leaves alone
        for form in (
            quote(text, safe=safe, errors="surrogatepass"),
            quote_plus(text, safe=safe, errors="surrogatepass"),
        ):
            yield form
            yield _lower_hex(form)


def _lower_hex(text: str) -> str:
    first, *rest = text.split("%")
    return "%".join([first, *(part[:2].lower() + part[2:] for part in rest)])


def _every_byte_percent_encoded(raw: bytes) -> Iterator[bytes]:
    upper = "".join(f"%{byte:02X}" for byte in raw)
    yield upper.encode()
    yield upper.lower().encode()


def _html(text: str) -> Iterator[str]:
    bare = html.escape(text, quote=False)
    yield bare
    for apostrophe in ("'", "&#x27;", "&#39;", "&apos;"):
        for double in ("&quot;", "&#34;", "&#x22;"):
            yield bare.replace("'", apostrophe).replace('"', double)


def _shell(text: str) -> Iterator[str]:
    yield shlex.quote(text)[1:-1] if shlex.quote(text) != text else text
    yield text.replace("'", "'\\''")
    in_double_quotes = text
    for special in '\\"$`':
        in_double_quotes = in_double_quotes.replace(special, f"\\{special}")
    yield in_double_quotes
    yield "".join(c if c.isalnum() or c in "_@%+=:,./-" else f"\\{c}" for c in text)
