"""Finds credentials in a file by their shape, name or address, and never repeats them."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from skillpouch.problems import Problem
from skillpouch.secrets.shapes import (
    Secret,
    find_shaped,
    is_placeholder,
    looks_random,
    says_made_up,
)

_ADDRESS = re.compile(
    r"(?<![A-Za-z0-9])"
    r"(?P<scheme>postgres(?:ql)?|mysql|mariadb|mongodb|rediss?|amqps?|mssql|https?|s?ftp)"
    r"(?:\+\w{1,20})?://[^\s:/@\"'<>]{0,64}:(?P<password>[^\s/@\"'<>]{3,128})"
    r"@(?P<host>[\w.-]{1,253})",
    re.IGNORECASE,
)
# Passwords that documentation uses; a real password as weak as these protects nothing either.
_WORDS = frozenset(
    (
        *("pass", "passwd", "pwd", "user", "username", "guest", "admin", "root", "postgres"),
        *("mysql", "test", "tiger", "foo", "bar", "baz", "letmein", "welcome", "hunter2"),
        *("p4ssw0rd", "pass123", "admin123", "pwd123", "123", "1234", "12345"),
    )
)
# Hosts that nobody else can reach: this machine, a container, a private network, a placeholder.
_NOWHERE = re.compile(
    r"127\.|0\.0\.0\.0|10\.|192\.168\.|[^.]+$|your|host|.*\bexample\b"
    r"|.*\.(?:test|local|internal|invalid)$",
    re.IGNORECASE,
)


def find_in_addresses(text: str) -> Iterator[Secret]:
    """Yield each password in an address, unless it is a placeholder."""
    if "://" not in text:
        return
    for match in _ADDRESS.finditer(text):
        if _is_password(match["password"], match["scheme"].lower(), match["host"]):
            start, end = match.span("password")
            yield Secret(start=start, end=end, kind=f"password in a {match['scheme']} address")


def _is_password(password: str, scheme: str, host: str) -> bool:
    if password.strip("[]()").lower() in _WORDS or is_placeholder(password):
        return False
    # Documentation of HTTP is full of made-up passwords: there, only a generated one counts.
    chosen = not scheme.startswith("http") and _NOWHERE.match(host) is None
    return chosen or looks_random(password)


# In files of other kinds an unquoted word to the right of `=` is code, not text.
_WITH_UNQUOTED_TEXT = frozenset(
    (
        *("env", "sh", "bash", "zsh", "yml", "yaml", "ini", "cfg", "conf", "toml", "properties"),
        *("md", "markdown", "txt", "http", "rest"),
    )
)

# Two steps, the first on text in lower case: twice as fast as one pattern with IGNORECASE.
_NAME = re.compile(
    r"(?:api|access|auth|secret|private|encryption|signing|master|account|service)[_-]?key"
    r"|secret|token|passw(?:or)?d|pwd|passphrase|credential|authorization"
)
_VALUE = re.compile(
    r"""
    (?P<rest>[\w-]{0,24})
    (?:["']?\]?[ \t]{0,4}(?::[ ]?[\w.\[\]|]{1,24}[ ]?=|=>|:=|=(?!=)|:)  # name: str = , name =>
      |["'],)                                                           # ("name", "default")
    [ \t]{0,4}(?P<quote>["'`]?)(?:(?:[Bb]earer|[Bb]asic|[Tt]oken)[ ])?
    (?P<value>[A-Za-z0-9_+/.~!@\#%^*-]{16,512}={0,2})(?P<closing>["'`]?)
    """,
    re.VERBOSE,
)
# Words after and before the name: the value only describes a secret, or is public.
_ABOUT = re.compile(
    r"(?:url|uri|path|file|dir|type|name|field|header|prefix|format|pattern|regex|endpoint|ids?"
    r"|hash|digest|policy|class|hint|label|env|var|arn|ref|version|expir\w*|length|size|at)$"
)
_NOT_SECRET = re.compile(
    r"public|sha-?\d|md5|hash|digest|checksum|integrity|fingerprint|csrf"
    r"|(?:::|/)[\w-]*$"  # the name of a type, or a path
)
_CURSOR = re.compile(
    r"(?:next|page|paging|continuation|cursor|sync|lock|request|change|update|idempotency|client)"
    r"[_-]?$"
)
_LEFT_CONTEXT = 48


def find_assigned(file_name: str, text: str) -> Iterator[Secret]:
    """Yield each value that looks generated and is assigned to a name for a credential."""
    unquoted = _has_unquoted_text(file_name)
    # U+0130 is the only character whose lower case is longer; positions must stay the same.
    lowered = text.replace("\u0130", "i").lower()
    for name in _NAME.finditer(lowered):
        match = _VALUE.match(text, name.end())
        if match is None or match["quote"] != match["closing"] or not (match["quote"] or unquoted):
            continue
        start, end = match.span("value")
        if _is_secret(match["value"], text[end : end + 3]) and not _is_about(lowered, name, match):
            yield Secret(start=start, end=end, kind="credential", shown=match["value"][:2])


def _has_unquoted_text(file_name: str) -> bool:
    return file_name.startswith(".env") or file_name.rpartition(".")[2] in _WITH_UNQUOTED_TEXT


def _is_secret(value: str, following: str) -> bool:
    if is_placeholder(value, following) or says_made_up(value):
        return False
    return looks_random(value)


def _is_about(lowered: str, name: re.Match[str], match: re.Match[str]) -> bool:
    before = lowered[max(0, name.start() - _LEFT_CONTEXT) : name.start()].rpartition("\n")[2]
    if name[0] == "token" and _CURSOR.search(before):
        return True
    return bool(_ABOUT.search(match["rest"].lower()) or _NOT_SECRET.search(before))


_LOCK_FILES = frozenset(
    ("package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "go.sum", "bun.lockb")
)


def find_secrets(path: str, text: str) -> list[Problem]:
    """Return one problem per credential; the message shows at most four characters of it."""
    name = PurePosixPath(path).name.lower()
    if name in _LOCK_FILES or name.endswith(".lock"):
        return []
    found = [*find_shaped(text), *find_in_addresses(text), *find_assigned(name, text)]
    problems: list[Problem] = []
    line, counted, end = 1, 0, 0
    for secret in sorted(found, key=lambda secret: secret.start):
        # The same text can be a provider's token and the value of an assignment: report it once.
        if secret.start >= end:
            line += text.count("\n", counted, secret.start)
            counted, end = secret.start, secret.end
            problems.append(_problem(path, line, secret))
    return problems


def _problem(path: str, line: int, secret: Secret) -> Problem:
    shown = f" ({secret.shown}…)" if secret.shown else ""
    return Problem(
        path=path,
        code="hardcoded-secret",
        severity="warning",
        message=f"hard-coded {secret.kind}{shown}: read it from an environment variable, "
        "and revoke it if it is real",
        line=line,
    )
