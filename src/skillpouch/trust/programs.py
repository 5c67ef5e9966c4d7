"""A fetched program that somebody vouched for: its address and its hash, in one word.

It is written as package indexes write it: `https://tools.example.com/pdf#sha256=6f4c…`.
"""

import re
from collections.abc import Iterable

_PIN = re.compile(r"(https://[^\s#]+)#sha256=([0-9a-f]{64})\Z")


def pin_of(url: str, sha256: str) -> str:
    """Return the word for one content of one address."""
    return f"{url.partition('#')[0]}#sha256={sha256}"


def split_pin(pin: str) -> tuple[str, str]:
    """Return address and hash; two empty texts when it is no such word."""
    match = _PIN.match(pin)
    return (match[1], match[2]) if match else ("", "")


def pinned_hash(url: str, pins: Iterable[str]) -> str | None:
    """Return the hash that an address must have, None when nobody vouched for any."""
    wanted = url.partition("#")[0]
    return next((found for each, found in map(split_pin, pins) if each == wanted), None)


def with_pin(pins: tuple[str, ...], pin: str) -> tuple[str, ...]:
    """Return pins with one more, which takes the place of another one of its address."""
    url = split_pin(pin)[0]
    return tuple(sorted({*(each for each in pins if split_pin(each)[0] != url), pin}))
