"""The one consent that is no skill's: to run unconfined on a machine that cannot confine."""

import json
import platform
from dataclasses import asdict, astuple, dataclass, field

CONSENT_FILE = "unconfined.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """Who said so and when. It counts on the machine where it was said: homes are shared."""

    when: str
    by: str
    machine: str = field(default_factory=platform.node)


def write_consent(consent: Consent) -> bytes:
    """Return the text that is kept."""
    return json.dumps(asdict(consent)).encode()


def read_consent(data: bytes | None) -> Consent | None:
    """Return the consent in a text, if it is one and was given on this machine."""
    try:
        value = json.loads(data or b"null")
        consent = Consent(**value) if isinstance(value, dict) else None
    except (ValueError, TypeError, RecursionError):
        return None
    if consent is None or not all(isinstance(each, str) for each in astuple(consent)):
        return None
    return consent if consent.machine == platform.node() else None
