"""Recognises credentials by their shape, and tells which variables are plain settings."""

import math
import re
from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from urllib.parse import urlsplit

# What people write in place of a credential. 40 random characters contain the shortest of these
# less than once in ten thousand times.
_PLACEHOLDER = re.compile(
    r"example|sample|your|xxxx|placeholder|change[_-]?(?:me|it|this)|dummy|fake|mock|insert|replace"
    r"|redacted|todo|secret|passw|token|(?:api|access|private)[_-]?key|credential|foobar|qwerty"
    r"|123456|234567|0{6}|1{6}|abcdef|1a2b3c|a1b2c3|fedcba|deadbeef|lorem|test[_-]|[_-]test"
    r"|\.\.\.|…|\*{3}|[<>{}$]|%s|%\(|process\.env|environ|getenv",
    re.IGNORECASE,
)
# A value followed by one of these was shortened by its author, or is filled in by code.
_UNFINISHED = ("...", "…", "***", "<", "{", "$", "[")
_LEAST_DIFFERENT_CHARACTERS = 8
_MADE_UP = re.compile(rb"(?i)\b(?:invalid|example|test|user:pass\w*)\b")
_URL_SAFE = str.maketrans("-_", "+/")

_LITERAL = re.compile(r"[A-Za-z0-9_+/.~!@#%^*-]{16,512}={0,2}")
_PATH_OR_HOST = re.compile(
    r"\.{0,2}/|~/|@|.*\.(?:com|org|net|io|dev|json|ya?ml|py|js|ts|md|txt|pem|env)\b"
)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_HUMP = re.compile(r"(?<![A-Z])[A-Z](?=[a-z])")

# Measured on random keys in hex and base 36, 62 and 64: of those with 20 characters 94 in 100
# pass, with 32 or more 97; identifiers, versions, dates and kebab-case words do not.
_LEAST_BITS = 3.0
_LEAST_DIGITS = 1
_LEAST_LETTERS = 4
_LEAST_CHANGES = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """A stretch of a text that holds a credential, and how much of it may be shown."""

    start: int
    end: int
    kind: str
    shown: str = ""


def is_placeholder(value: str, following: str = "") -> bool:
    """Whether `value`, with `following` right after it, only stands in place of a secret."""
    return (
        following.startswith(_UNFINISHED)
        or len(set(value)) < min(_LEAST_DIFFERENT_CHARACTERS, len(value) // 2 + 1)
        or _PLACEHOLDER.search(value) is not None
    )


def says_made_up(encoded: str) -> bool:
    """Whether base 64 text decodes to words such as "example" or "test"."""
    padded = encoded.rstrip("=").translate(_URL_SAFE)
    try:
        decoded = b64decode(padded + "=" * (-len(padded) % 4))
    except ValueError:
        return False
    return _MADE_UP.search(decoded) is not None


def looks_random(value: str) -> bool:
    """Whether `value` reads like a generated key: no words, no path, no repeated characters."""
    if _LITERAL.fullmatch(value) is None or _PATH_OR_HOST.match(value) or _UUID.fullmatch(value):
        return False
    letters = sum(char.isalpha() for char in value)
    digits = sum(char.isdigit() for char in value)
    if letters < _LEAST_LETTERS or digits < _LEAST_DIGITS:
        return False
    return _bits_per_character(value) >= _LEAST_BITS and _changes(value) >= _LEAST_CHANGES


def _bits_per_character(value: str) -> float:
    size = len(value)
    return -sum(n / size * math.log2(n / size) for n in Counter(value).values())


def _changes(value: str) -> float:
    """Return how often letters, digits and capitals alternate: rarely in words, often in keys."""
    # The capital of a camelCase word is not a change: it belongs to the word.
    words = _HUMP.sub("a", "".join(filter(str.isalnum, value)))
    kinds = [char.isdigit() + 2 * char.isupper() for char in words]
    return sum(a != b for a, b in pairwise(kinds)) / len(value)


@dataclass(frozen=True, slots=True)
class _Shape:
    kind: str
    hint: str  # a fixed part of the pattern: only texts that contain it are searched
    pattern: re.Pattern[str]
    accepts: Callable[[str], bool] = bool


def _token(kind: str, hint: str, pattern: str, accepts: Callable[[str], bool] = bool) -> _Shape:
    # Only at the start of a word: otherwise a long run of characters is searched from each of them.
    return _Shape(kind, hint, re.compile(rf"(?<![A-Za-z0-9_-]){pattern}"), accepts)


# Publicly known: the token of most explanations of JWT (subject 1234567890), and the demo keys of
# a local Supabase.
_PUBLISHED = re.compile(r"eyJzdWIiOiIxMjM0NTY3ODkw|eyJpc3MiOiJzdXBhYmFzZS1kZW1v")


def _is_unpublished(token: str) -> bool:
    return _PUBLISHED.search(token) is None and not says_made_up(token.split(".")[1])


_SHAPES = (
    _token("Anthropic API key", "sk-ant-", r"sk-ant-[A-Za-z0-9_-]{20,200}", looks_random),
    _token("OpenAI-style API key", "sk-", r"sk-(?!ant-)[A-Za-z0-9_-]{20,200}", looks_random),
    _token("Stripe live key", "k_live_", r"[sr]k_live_[A-Za-z0-9]{16,200}"),
    _token("GitHub token", "gh", r"gh[pousr]_[A-Za-z0-9]{36,255}"),
    _token("GitHub token", "github_pat_", r"github_pat_[A-Za-z0-9_]{22,255}"),
    _token("GitLab token", "glpat-", r"glpat-[A-Za-z0-9_.-]{20,200}"),
    _token("Slack token", "xox", r"xox[abeoprs]-[A-Za-z0-9-]{20,250}", looks_random),
    _token("Slack token", "xapp-", r"xapp-\d-[A-Za-z0-9-]{20,250}", looks_random),
    _token("AWS access key id", "AKIA", r"AKIA[A-Z2-7]{16}(?![A-Za-z0-9])"),
    _token("AWS access key id", "ASIA", r"ASIA[A-Z2-7]{16}(?![A-Za-z0-9])"),
    _token("Google API key", "AIza", r"AIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])"),
    _token("Google OAuth secret", "GOCSPX-", r"GOCSPX-[A-Za-z0-9_-]{28}"),
    _token("Hugging Face token", "hf_", r"hf_[A-Za-z0-9]{30,60}(?![A-Za-z0-9_])"),
    _token("npm token", "npm_", r"npm_[A-Za-z0-9]{36}(?![A-Za-z0-9_])"),
    _token("PyPI token", "pypi-", r"pypi-AgEI[A-Za-z0-9_-]{50,500}"),
    _token("Groq API key", "gsk_", r"gsk_[A-Za-z0-9]{40,80}"),
    _token("Replicate token", "r8_", r"r8_[A-Za-z0-9]{37}(?![A-Za-z0-9_])"),
    _token("xAI API key", "xai-", r"xai-[A-Za-z0-9]{60,100}"),
    _token("Perplexity API key", "pplx-", r"pplx-[A-Za-z0-9]{40,80}"),
    _token("Tavily API key", "tvly-", r"tvly-[A-Za-z0-9-]{20,80}", looks_random),
    _token("Linear API key", "lin_api_", r"lin_api_[A-Za-z0-9]{32,64}"),
    _token("Notion token", "ntn_", r"ntn_[A-Za-z0-9]{40,60}"),
    _token("DigitalOcean token", "_v1_", r"do[opr]_v1_[a-f0-9]{64}"),
    _token("SendGrid API key", "SG.", r"SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    _token("Telegram bot token", ":AA", r"\d{8,10}:AA[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])"),
    _token(
        "JSON web token",
        ".eyJ",
        r"eyJ[A-Za-z0-9_-]{10,2000}\.eyJ[A-Za-z0-9_-]{10,4000}\.[A-Za-z0-9_-]{20,1000}",
        _is_unpublished,
    ),
    _token(
        "Slack webhook",
        "hooks.slack.com/services/",
        r"hooks\.slack\.com/services/T[A-Z0-9]{6,16}/B[A-Z0-9]{6,16}/[A-Za-z0-9]{20,40}",
    ),
    _token(
        "Discord webhook",
        "/api/webhooks/",
        r"discord(?:app)?\.com/api/webhooks/\d{17,20}/[A-Za-z0-9_-]{60,80}",
    ),
)

_PRIVATE_KEY = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_KEY_MATERIAL = re.compile(r"[A-Za-z0-9+/]{40}")
_KEY_HEADERS = 300  # characters between the first line and the key itself
_KEY_MATERIAL_SEEN = 80  # enough to find the "..." of a shortened key

_AWS_SECRET = re.compile(r"(?<![A-Za-z0-9/+=_-])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=_-])")
_AWS_NEIGHBOURHOOD = 200

_SHOWN_CHARACTERS = 4


def find_shaped(text: str) -> Iterator[Secret]:
    """Yield each credential of a known provider."""
    for shape in _SHAPES:
        if shape.hint in text:
            yield from _of_shape(shape, text)
    if "PRIVATE KEY" in text:
        yield from _private_keys(text)


def _of_shape(shape: _Shape, text: str) -> Iterator[Secret]:
    for match in shape.pattern.finditer(text):
        token, end = match[0], match.end()
        if is_placeholder(token, text[end : end + 3]) or not shape.accepts(token):
            continue
        shown = token[:_SHOWN_CHARACTERS]
        yield Secret(start=match.start(), end=end, kind=shape.kind, shown=shown)
        if shape.kind.startswith("AWS"):
            yield from _aws_secrets_near(text, match.start(), end)


def _aws_secrets_near(text: str, start: int, end: int) -> Iterator[Secret]:
    """Yield the secret near an access key id; alone, its form would match too much other text."""
    for match in _AWS_SECRET.finditer(
        text, max(0, start - _AWS_NEIGHBOURHOOD), end + _AWS_NEIGHBOURHOOD
    ):
        if looks_random(match[0]) and not is_placeholder(match[0]):
            yield Secret(start=match.start(), end=match.end(), kind="AWS secret access key")


def _private_keys(text: str) -> Iterator[Secret]:
    for match in _PRIVATE_KEY.finditer(text):
        # A key must follow: code that searches for this line contains only the line.
        key = _KEY_MATERIAL.search(text, match.end(), match.end() + _KEY_HEADERS)
        if key and not is_placeholder(text[match.end() : key.end() + _KEY_MATERIAL_SEEN]):
            yield Secret(start=match.start(), end=key.end(), kind="private key")


# The last word of such a name says what kind of value it has: a place on this machine or in a
# network, a program, a measure, a choice; or the first word does, of a bound or a switch. Only its
# value tells whether an address has a password in it.
_SETTING = re.compile(
    r"[A-Z][A-Z0-9_]*_(?:HOME|DIR|PATH|FILE|FOLDER|ROOT|URL|URI|ENDPOINT|HOST|PORT|REGION|REGISTRY"
    r"|PYTHON|BIN|BINARY|EXECUTABLE|COMMAND|CMD|VERSION|ENGINE|MODEL|MODE|LEVEL|FORMAT|LANGUAGE"
    r"|TIMEOUT|SECONDS|MS|LIMIT|SIZE|COUNT|RETRIES|ENABLED|DISABLED|ID|NAME|PROJECT|PROFILE)\Z"
    r"|(?:MAX|MIN|NUM|ENABLE|DISABLE|SKIP)_[A-Z0-9_]+\Z"
)
# A name with one of these words is a secret's, whatever its last word: WEBHOOK_PATH, API_KEY_DIR.
_SECRETIVE = re.compile(
    r"(?:\A|_)(?:\w*(?:KEY|TOKEN|SECRET|PASS(?:WORD|WD|PHRASE)|CREDENTIAL)S?|PWD|PASS|PAT|AUTH"
    r"|COOKIES?|SESSION|WEBHOOKS?|DSN|CONNECTION|DATABASE|JWT|SIGNATURE|PRIVATE)(?:_|\Z)"
)
_COUNTED = re.compile(r"(?:MAX|MIN|NUM)_(?:[A-Z0-9]+_)*TOKENS\Z")  # the tokens of a model
_SCHEMES = ("http", "https", "ws", "wss")
_LONGEST_VALUE = 4_096


def is_setting(name: str) -> bool:
    """Tell whether a variable is a plain setting by its name: `*_DIR`, `*_URL`, `MAX_*`."""
    return _SETTING.match(name) is not None and not is_named_like_a_secret(name)


def is_named_like_a_secret(name: str) -> bool:
    """Tell whether a word of a variable's name is one for secrets: KEY, TOKEN, PASSWORD."""
    upper = name.upper()
    return _SECRETIVE.search(upper) is not None and _COUNTED.match(upper) is None


def reason_against_plain(name: str, value: str) -> str:
    """Return why a variable must not be shown, "" if it may be: then it is no secret."""
    if is_named_like_a_secret(name):
        return "its name is that of a secret"
    if len(value) > _LONGEST_VALUE or not value.isprintable():
        return "its value is not one line of plain text"
    if reason := _in_address(value):
        return reason
    words = re.split(r"[\s/:,;=&?#]+", value)
    if any(map(looks_random, words)) or any(True for _ in find_shaped(value)):
        return "its value looks like a key"
    return ""


def _in_address(value: str) -> str:
    """Return what is secret in a value that is an address, or has one in it."""
    if "://" not in value:
        return ""
    try:
        parts = urlsplit(value)
    except ValueError:
        return "its value is an address that cannot be read"
    if parts.scheme.lower() not in _SCHEMES:
        return "its value is an address that usually holds a password"
    if "@" in value or parts.username or parts.password:
        return "its value is an address with a user in it"
    if "?" in value or "#" in value or value.count("://") > 1:
        return "its value is an address with a query in it"
    return ""
