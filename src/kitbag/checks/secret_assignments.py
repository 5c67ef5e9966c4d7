"""Finds generated keys assigned to a name such as `api_key`, whoever issued them."""

import re
from collections.abc import Iterator

from kitbag.checks.secret_values import Secret, is_placeholder, looks_random

# Elsewhere an unquoted word on the right of `=` is code, not text.
_WITH_UNQUOTED_TEXT = frozenset(
    (
        *("env", "sh", "bash", "zsh", "yml", "yaml", "ini", "cfg", "conf", "toml", "properties"),
        *("md", "markdown", "txt", "http", "rest"),
    )
)

_ASSIGNED = re.compile(
    r"""
    (?:(?:api|access|auth|secret|private|encryption|signing|master|account|service)[_-]?key
      |secret|token|passw(?:or)?d|pwd|passphrase|credentials?|authorization)
    (?P<rest>[\w-]{0,24})
    (?:["']?[ \t]{0,4}(?::[ ]?[\w.\[\]|]{1,24}[ ]?=|=>|:=|=(?!=)|:)  # name: str = , name =>, name:
      |["'],)                                                        # get("name", "default")
    [ \t]{0,4}(?P<quote>["'`]?)(?:(?:bearer|basic|token)[ ])?
    (?P<value>[A-Za-z0-9_+/=.~!@\#%^&*:-]{16,512})(?P<closing>["'`]?)
    """,
    re.VERBOSE | re.IGNORECASE,
)
# Words around the name which say that the value is about a secret, or is public.
_ABOUT = re.compile(
    r"(?:url|uri|path|file|dir|type|name|field|header|prefix|format|pattern|regex|endpoint|ids?"
    r"|policy|class|hint|label|env|var|arn|ref|version|expir\w*|length|size|at)$",
    re.IGNORECASE,
)
_NOT_SECRET = re.compile(
    r"public|sha-?\d|md5|hash|digest|checksum|integrity|fingerprint|csrf", re.IGNORECASE
)
_LEFT_CONTEXT = 48


def find_assigned(file_name: str, text: str) -> Iterator[Secret]:
    """Yield each value that looks generated and is given to a name for a credential."""
    unquoted = _has_unquoted_text(file_name)
    for match in _ASSIGNED.finditer(text):
        if match["quote"] == match["closing"] and (match["quote"] or unquoted):
            start, end = match.span("value")
            value = text[start:end]
            if (
                looks_random(value)
                and not is_placeholder(value, text[end : end + 3])
                and not _is_about_a_secret(text, match)
            ):
                yield Secret(start=start, end=end, kind="credential", shown=value[:2])


def _has_unquoted_text(file_name: str) -> bool:
    return file_name.startswith(".env") or file_name.rpartition(".")[2] in _WITH_UNQUOTED_TEXT


def _is_about_a_secret(text: str, match: re.Match[str]) -> bool:
    left = text[max(0, match.start() - _LEFT_CONTEXT) : match.start("value")]
    return bool(_ABOUT.search(match["rest"]) or _NOT_SECRET.search(left.rpartition("\n")[2]))
