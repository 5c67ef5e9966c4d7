"""How long to wait before a request is sent again: a pure decision."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

# Too many requests, and three ways of saying that somebody else is not there just now.
_WORTH_A_RETRY = (429, 502, 503, 504)
_FIRST_SECONDS = 0.2
_LONGEST_SECONDS = 30.0


def is_worth_a_retry(status: int) -> bool:
    """Tell whether an answer may be another one in a moment."""
    return status in _WORTH_A_RETRY


def retry_delay(number: int, retry_after: str, remaining: float) -> float | None:
    """Return the seconds to wait before retry `number`, from 0; None when it is not worth it.

    What the server asks for is kept to. Where that is longer than the time that is left, or than
    anybody should wait for, the answer that is there counts.
    """
    asked = _seconds(retry_after)
    delay = _FIRST_SECONDS * 2**number if asked is None else asked
    return delay if delay <= min(_LONGEST_SECONDS, remaining / 2) else None


def _seconds(retry_after: str) -> float | None:
    if retry_after.isascii() and retry_after.isdigit():
        return float(retry_after[:9])
    try:
        when = parsedate_to_datetime(retry_after)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return max(0.0, (when - datetime.now(UTC)).total_seconds())
