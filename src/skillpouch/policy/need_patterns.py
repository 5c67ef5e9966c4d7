"""Which needs a rule means: `secret`, `host:*.example.com`, `read:/srv/*`, `unconfined`."""

import re
from dataclasses import dataclass
from typing import get_args

from skillpouch.needs import Need, NeedKind
from skillpouch.policy.patterns import matcher, spellings
from skillpouch.trust.packages import split_package

KINDS: tuple[NeedKind, ...] = get_args(NeedKind)


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedPattern:
    kind: NeedKind
    value: str = "*"

    def covers(self, need: Need) -> bool:
        """Tell whether all of the need is meant: what an allow rule has to know."""
        if need.kind != self.kind:
            return False
        fits = matcher(_folded(self.kind, self.value))
        if self.kind == "packages" and fits(_folded(self.kind, split_package(need.value)[0])):
            return True  # a package without a version is any version of it
        return all(fits(_folded(self.kind, text)) for text in spellings(need.value))

    def touches(self, need: Need) -> bool:
        """Tell whether any of the need may be meant: what a rule that refuses has to know."""
        if need.kind != self.kind:
            return False
        pattern = _folded(self.kind, self.value)
        fits = matcher(pattern)
        texts = [_folded(self.kind, text) for text in _parts(need)]
        # A need may be a pattern itself: `*.example.com` reaches what `api.example.com` refuses.
        return any(fits(text) or matcher(text)(pattern) for text in texts)


def parse_need(text: str) -> NeedPattern:
    """Read `kind` or `kind:value`.

    Raises:
        ValueError: it is neither; the message says what is.
    """
    kind, separator, value = text.partition(":")
    for known in KINDS:
        if kind == known and (value or not separator):
            return NeedPattern(kind=known, value=value or "*")
    kinds = ", ".join(KINDS)
    raise ValueError(f"{text!r} is no need: write one of {kinds}, or like 'host:api.example.com'")


def _folded(kind: NeedKind, text: str) -> str:
    # Names of hosts mean the same in either case, with or without the last dot.
    if kind == "host":
        return text.lower().rstrip(".")
    # So do those of Python packages, whatever joins their words; those of npm do not.
    if kind == "packages" and not text.startswith("npm:"):
        return re.sub(r"[-_.]+", "-", text).lower()
    return text


def _parts(need: Need) -> list[str]:
    """Return what a rule may call the need: a host with and without its port, each package."""
    texts = list(spellings(need.value))
    if need.kind == "host":
        host, _, port = need.value.rpartition(":")
        texts += [host.strip("[]"), host] if port.isdecimal() else []
    if need.kind == "packages":
        texts += [split_package(need.value)[0], *need.value.replace(",", " ").split()]
        # In doubt against the call: npm once took capitals.
        texts += [text.lower() for text in texts]
    return texts
