"""The state of a script as text that may leave this process: whoever changes it is noticed."""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode

from skillpouch.shell.errors import StateTokenError

_SIGNATURE_BYTES = 32


def state_token(state: bytes, key: bytes, tool: str) -> str:
    """Return a state signed for one tool."""
    return urlsafe_b64encode(_signature(state, key, tool) + state).decode()


def state_of(token: str, key: bytes, tool: str) -> bytes:
    """Return the state that a token holds; raise StateTokenError when it is not ours."""
    try:
        data = urlsafe_b64decode(token.encode("ascii"))
    except ValueError:
        raise StateTokenError("it is not a token") from None
    signature, state = data[:_SIGNATURE_BYTES], data[_SIGNATURE_BYTES:]
    if not hmac.compare_digest(signature, _signature(state, key, tool)):
        raise StateTokenError("it is of another tool, or was changed")
    return state


def _signature(state: bytes, key: bytes, tool: str) -> bytes:
    return hmac.digest(key, tool.encode() + b"\0" + state, "sha256")
