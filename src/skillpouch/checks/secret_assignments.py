"""Finds generated keys assigned to a name such as `api_key`, whoever issued them."""

import re
from collections.abc import Iterator

from skillpouch.checks.secret_values import Secret, is_placeholder, looks_random, says_made_up

# Elsewhere an unquoted word on the right of `=` is code, not text.
_WITH_UNQUOTED_TEXT = frozenset(
    (
        *("env", "sh", "bash", "zsh", "yml", "yaml", "ini", "cfg", "conf", "toml", "properties"),
        *("md", "markdown", "txt", "http", "rest"),
    )
)

# Two steps, the first on text in lower case: twice as fast as one pattern without case.
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
# Words after and before the name which say that the value is about a secret, or is public.
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
    """Yield each value that looks generated and is given to a name for a credential."""
    unquoted = _has_unquoted_text(file_name)
    # U+0130 is the only character whose lower case is longer; places must stay the same.
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
