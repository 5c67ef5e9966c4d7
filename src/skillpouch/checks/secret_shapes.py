"""The credentials that show by their shape whose they are: one pattern per provider."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from skillpouch.checks.secret_values import Secret, is_placeholder, looks_random, says_made_up


@dataclass(frozen=True, slots=True)
class _Shape:
    kind: str
    hint: str  # text without it is not searched
    pattern: re.Pattern[str]
    accepts: Callable[[str], bool] = bool


def _token(kind: str, hint: str, pattern: str, accepts: Callable[[str], bool] = bool) -> _Shape:
    # It starts where a word starts, so that a long run of characters is searched only once.
    return _Shape(kind, hint, re.compile(rf"(?<![A-Za-z0-9_-]){pattern}"), accepts)


# Published for everybody: the token of most explanations of JWT (subject 1234567890), and the
# demo keys of a local Supabase.
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
_KEY_MATERIAL_SEEN = 80  # enough to meet the "..." of a key that was cut

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
    """Yield the secret that belongs to an access key id: it has no shape of its own."""
    for match in _AWS_SECRET.finditer(
        text, max(0, start - _AWS_NEIGHBOURHOOD), end + _AWS_NEIGHBOURHOOD
    ):
        if looks_random(match[0]) and not is_placeholder(match[0]):
            yield Secret(start=match.start(), end=match.end(), kind="AWS secret access key")


def _private_keys(text: str) -> Iterator[Secret]:
    for match in _PRIVATE_KEY.finditer(text):
        # Code that looks for such a line holds only the line.
        key = _KEY_MATERIAL.search(text, match.end(), match.end() + _KEY_HEADERS)
        if key and not is_placeholder(text[match.end() : key.end() + _KEY_MATERIAL_SEEN]):
            yield Secret(start=match.start(), end=key.end(), kind="private key")
