"""A secret is found in what real programs make of it: each way of quoting, each kind of secret."""

import base64
import json
import os
import shlex
import shutil
import subprocess
import sys
from functools import cache

import pytest

from skillpouch.secrets.redaction import Redactor

PIECE = 12  # so many characters in a row say too much
LINES = [
    "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj",
    "MzEfYyjiWA4R4/M2bS1GB4t7NXp98C3SC6dVMvDuictGeurT8jNbvJZHtCSuYEvu",
    "NMoSfm76oqFvAp8Gy0iz5sxjZmSnXyCdPEovGhLa0VzMaQ8s+CLOyS56YyCFGeJZ",
]
PEM = "-----BEGIN PRIVATE KEY-----\n" + "\n".join(LINES) + "\n-----END PRIVATE KEY-----\n"
ACCOUNT = {
    "type": "service_account",
    "private_key_id": "3f9a1c0b7e5d42689b1f0c7d8e2a4b6c5d7e9f01",
    "private_key": PEM,
    "client_email": "robot@my-project-1234.iam.example.com",
}
SECRETS = {
    "a token": "ghp_R4nd0mT0kenOfLettersAndDigits0123456",
    "a JSON key": json.dumps(ACCOUNT),
    "a JSON key on lines": json.dumps(ACCOUNT, indent=2),
    "a PEM key": PEM.strip(),
    "both quotes": "it's \"quoted\" 'both' ways & <more> `than` $once #{x} @y",
    "backslashes": 'C:\\new\\table\\x41 "is" \\\\server\\share\\',
    "not only ASCII": "pässwörd 'with' \"ümläuts\" \\ and € and 😀 in it",
    "an address": "postgres://user:p%40ss'word@db.example.com:5432/main?a=1&b=2",
}
PYTHON = r"""
import base64, csv, html, io, json, os, shlex, urllib.parse
import yaml
s = os.environ["KEY"]
b = s.encode()
def row(**kw):
    out = io.StringIO(); csv.writer(out, **kw).writerow([s]); return out.getvalue()
def octal(data):
    return "".join(f"\\{c:03o}" for c in data)
forms = {
    "repr": repr(s), "ascii": ascii(s), "bytes": repr(b), "bytearray": repr(bytearray(b)),
    "dict": repr({"k": s}), "key error": repr(KeyError(s)), "in double quotes": repr(s + "'")[:-1],
    "repr of repr": repr(repr(s)), "ascii of ascii": ascii(ascii(s)),
    "json": json.dumps(s), "json of unicode": json.dumps(s, ensure_ascii=False),
    "json of json": json.dumps(json.dumps(s)), "json thrice": json.dumps(json.dumps(json.dumps(s))),
    "json of repr": json.dumps(repr(s)), "repr of json": repr(json.dumps(s)),
    "json of bytes": json.dumps(repr(b)),
    "json for html": json.dumps(s).replace("<", "\\u003c").replace(">", "\\u003e")
        .replace("&", "\\u0026").replace("'", "\\u0027"),
    "json with slashes": json.dumps(s).replace("/", "\\/"),
    "csv": row(), "csv in single quotes": row(quotechar="'", quoting=csv.QUOTE_ALL),
    "csv with escapes": row(doublequote=False, escapechar="\\"),
    "yaml in double quotes": yaml.safe_dump(s, default_style='"', width=10**6),
    "yaml in single quotes": yaml.safe_dump(s, default_style="'", width=10**6, allow_unicode=True),
    "yaml of unicode": yaml.safe_dump(s, default_style='"', width=10**6, allow_unicode=True),
    "shlex": shlex.quote(s), "shlex twice": shlex.quote(shlex.quote(s)),
    "sql": "'" + s.replace("'", "''") + "'",
    "percent": urllib.parse.quote(s, safe=""), "percent twice":
        urllib.parse.quote(urllib.parse.quote(s, safe=""), safe=""),
    "form": urllib.parse.urlencode({"k": s}), "html": html.escape(s),
    "html numbers": s.replace("&", "&#38;").replace('"', "&#34;").replace("'", "&#39;")
        .replace("<", "&#60;").replace(">", "&#62;"),
    "html twice": html.escape(html.escape(s)),
    "unicode_escape": s.encode("unicode_escape").decode(),
    "backslashreplace": s.encode("ascii", "backslashreplace").decode(),
    "xmlcharrefreplace": s.encode("ascii", "xmlcharrefreplace").decode(),
    "every byte as x": "".join(f"\\x{c:02x}" for c in b),
    "every byte as X": "".join(f"\\x{c:02X}" for c in b),
    "every byte as octal": octal(b),
    "some as octal": "".join(chr(c) if chr(c).isalnum() and c < 128 else f"\\{c:03o}" for c in b),
    "some as x": "".join(chr(c) if chr(c).isalnum() and c < 128 else f"\\x{c:02x}" for c in b),
    "every byte percent": "".join(f"%{c:02x}" for c in b),
    "hex": b.hex(), "hex with spaces": b.hex(" "), "hex with colons": b.hex(":"),
    "hex of C": ", ".join(f"0x{c:02x}" for c in b), "numbers": str(list(b)),
    "base64": base64.b64encode(b).decode(), "lines of base64": base64.encodebytes(b).decode(),
    "indented": "\n".join("    " + line for line in s.split("\n")),
    "with CRLF": s.replace("\n", "\r\n"),
}
if "\r" not in s and "\\" not in s:
    forms["yaml block"] = yaml.safe_dump(s, default_style="|", allow_unicode=True)
import pprint, textwrap
forms |= {
    "pprint": pprint.pformat({"KEY": s}, width=60), "pprint of lists": pprint.pformat([[s]]),
    "yaml on lines": yaml.safe_dump({"a": {"k": s}}, allow_unicode=True),
    "yaml in quotes on lines": yaml.safe_dump([s], default_style='"', width=60),
    "wrapped": textwrap.fill(s, 50), "indented": textwrap.indent(textwrap.fill(s, 70), "    "),
    "percent twice": urllib.parse.quote(urllib.parse.quote(s)),
}
print(json.dumps(forms))
"""
NODE = r"""
const util = require('util'), s = process.env.KEY;
const forms = {
  inspect: util.inspect(s), object: util.inspect({k: s}), deep: util.inspect({a: {b: [s]}}),
  json: JSON.stringify(s), twice: JSON.stringify({a: JSON.stringify({k: s})}),
  "json of inspect": JSON.stringify(util.inspect(s)),
  uri: encodeURIComponent(s), whole: encodeURI(s), parameters: String(new URLSearchParams({k: s})),
  escape: /^[\x00-\x7f]*$/.test(s) ? escape(s) : '',
  format: util.format('%O %j', s, s), 'buffer as json': JSON.stringify(Buffer.from(s)).slice(25),
  buffer: util.inspect(Buffer.from(s)).replace(/ \.\.\. .*/, ''), raw: String.raw`${s}`,
};
console.log(JSON.stringify(forms));
"""
PERL = r"""
use Data::Dumper; use JSON::PP; $Data::Dumper::Indent = 0; $Data::Dumper::Terse = 1;
my $s = $ENV{KEY}; my %f;
$f{dumper} = Dumper($s); { local $Data::Dumper::Useqq = 1; $f{useqq} = Dumper($s); }
my $t = $s; utf8::decode($t); { local $Data::Dumper::Useqq = 1; $f{characters} = Dumper($t); }
$f{quotemeta} = quotemeta($t); $f{unpack} = unpack("H*", $s);
my $quoted = $s; $quoted =~ s/([^A-Za-z0-9])/sprintf("%%%02X", ord($1))/ge; $f{uri} = $quoted;
utf8::decode($_) for values %f; print JSON::PP->new->utf8->encode(\%f);
"""
RUBY = r"""
require 'json'; require 'shellwords'; require 'cgi'; require 'csv'
s = ENV["KEY"].dup.force_encoding("UTF-8")
f = { inspect: s.inspect, dump: s.dump, json: s.to_json, shell: Shellwords.escape(s),
      bytes: s.dup.force_encoding("BINARY").inspect, cgi: CGI.escapeHTML(s), hash: {k: s}.inspect,
      twice: s.inspect.inspect }
puts f.to_json
"""
BASH = r"""
p() { printf '%s\0' "$1" "$2"; }
p %q "$(printf %q "$KEY")"; p @Q "${KEY@Q}"; p @E-declare "$(declare -p KEY)"
p @A "${KEY@A}"; p set "$(set | sed -n '/^KEY=/,/^[A-Z_a-z]*=/p')"
p export "$(export -p | grep -a KEY=)"
p json "$(printf '%s' "$KEY" | sed 's/[\\"]/\\&/g')"
p xtrace "$( { set -x; : "$KEY"; } 2>&1 | grep -av 'set +x')"
p dash "$(dash -c 'k=$KEY; unset KEY; set' 2>/dev/null | sed -n '/^k=/,$p' | head -c 100000)"
p od "$(printf '%s' "$KEY" | od -An -v -tx1 -w1048576)"
p octal "$(printf '%s' "$KEY" | od -An -v -to1 -w1048576)"
p ls "$(printf %q "$(printf %q "$KEY")")"
"""
PROGRAMS = {
    "python": [sys.executable, "-c", PYTHON],
    "node": ["node", "-e", NODE],
    "perl": ["perl", "-e", PERL],
    "ruby": ["ruby", "-e", RUBY],
    "bash": ["bash", "-c", BASH],
}


@cache
def forms_by(program: str, kind: str) -> dict[str, str]:
    """What a program makes of a secret, by the name of the way."""
    found = {"PATH": os.environ["PATH"], "KEY": SECRETS[kind], "LC_ALL": "C.UTF-8"}
    words = PROGRAMS[program]
    said = subprocess.run(words, env=found, capture_output=True, check=True).stdout
    if program != "bash":
        return dict(json.loads(said))
    parts = said.decode(errors="surrogateescape").split("\0")
    return dict(zip(parts[0::2], parts[1::2], strict=False))


# What stands around a secret, and the lines that all keys have.
AROUND = [
    *("declare -x KEY=", "export KEY=", "LC_ALL=C.UTF-8", "bytearray(b"),
    *("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----"),
]


def says_something(piece: str) -> bool:
    """Brackets, quotes and spaces around a secret say nothing of it."""
    return sum(character.isalnum() for character in piece) >= PIECE // 2


def pieces_left(secret: str, written: str, redacted: str) -> set[str]:
    """The pieces of a secret, as it is or as it was written, that can still be read."""
    left = set()
    for words in AROUND:
        written, redacted = written.replace(words, ""), redacted.replace(words, "")
    for text in (secret, written):
        windows = (text[at : at + PIECE] for at in range(len(text) - PIECE + 1))
        left |= {piece for piece in windows if piece in redacted and says_something(piece)}
    return left


@pytest.mark.slow
@pytest.mark.promise("sec-1")
@pytest.mark.parametrize("kind", SECRETS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_no_piece_of_a_secret_survives_what_a_program_makes_of_it(program: str, kind: str) -> None:
    if shutil.which(PROGRAMS[program][0]) is None:
        pytest.skip(f"{program} is not installed")
    secret = SECRETS[kind]
    redactor = Redactor({"KEY": secret})

    left = {}
    for way, written in forms_by(program, kind).items():
        stream = redactor.stream()
        cut = len(written) // 3
        parts = (written[:cut], written[cut:])
        streamed = [stream.feed(part.encode(errors="surrogateescape")) for part in parts]
        shown = b"".join([*streamed, stream.close()]).decode(errors="surrogateescape")
        found = pieces_left(secret, written, redactor.text(written))
        found |= pieces_left(secret, written, shown)
        if found:
            left[way] = sorted(found)[:2]

    assert left == {}


@pytest.mark.promise("sec-1")
def test_each_long_text_of_a_json_key_is_a_secret_of_its_own() -> None:
    redactor = Redactor({"KEY": json.dumps({"a": [{"token": "0123456789abcdef", "n": "short"}]})})
    packed = Redactor({"KEY": base64.b64encode(json.dumps(ACCOUNT).encode()).decode()})

    assert redactor.text("token: 0123456789abcdef, short") == "token: [redacted KEY], short"
    assert packed.text(repr(LINES[1] + "'")) == '"[redacted KEY]\'"'


@pytest.mark.promise("sec-1")
@pytest.mark.parametrize("depth", range(1, 8))
def test_however_often_a_secret_is_quoted_it_is_found(depth: int) -> None:
    secret = SECRETS["both quotes"]
    for quoting in (repr, json.dumps, shlex.quote):
        written = secret
        for _ in range(depth):
            written = quoting(written)

        assert pieces_left(secret, written, Redactor({"KEY": secret}).text(written)) == set()
