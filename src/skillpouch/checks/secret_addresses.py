"""Finds passwords in addresses such as `postgres://user:password@host`."""

import re
from collections.abc import Iterator

from skillpouch.checks.secret_values import Secret, is_placeholder, looks_random

_ADDRESS = re.compile(
    r"(?<![A-Za-z0-9])"
    r"(?P<scheme>postgres(?:ql)?|mysql|mariadb|mongodb|rediss?|amqps?|mssql|https?|s?ftp)"
    r"(?:\+\w{1,20})?://[^\s:/@\"'<>]{0,64}:(?P<password>[^\s/@\"'<>]{3,128})"
    r"@(?P<host>[\w.-]{1,253})",
    re.IGNORECASE,
)
# The passwords that explanations use; a real one that is this weak is no secret either.
_WORDS = frozenset(
    (
        *("pass", "passwd", "pwd", "user", "username", "guest", "admin", "root", "postgres"),
        *("mysql", "test", "tiger", "foo", "bar", "baz", "letmein", "welcome", "hunter2"),
        *("p4ssw0rd", "pass123", "admin123", "pwd123", "123", "1234", "12345"),
    )
)
# This machine, a container beside it, a private network, a name that stands for another.
_NOWHERE = re.compile(
    r"127\.|0\.0\.0\.0|10\.|192\.168\.|[^.]+$|your|host|.*\bexample\b"
    r"|.*\.(?:test|local|internal|invalid)$",
    re.IGNORECASE,
)


def find_in_addresses(text: str) -> Iterator[Secret]:
    """Yield each password that an address of a reachable host carries."""
    if "://" not in text:
        return
    for match in _ADDRESS.finditer(text):
        if _is_secret(match["password"], match["scheme"].lower(), match["host"]):
            start, end = match.span("password")
            yield Secret(start=start, end=end, kind=f"password in a {match['scheme']} address")


def _is_secret(password: str, scheme: str, host: str) -> bool:
    if password.strip("[]()").lower() in _WORDS or is_placeholder(password):
        return False
    # Explanations of HTTP are full of made-up passwords: there, only a generated one counts.
    chosen = not scheme.startswith("http") and _NOWHERE.match(host) is None
    return chosen or looks_random(password)
