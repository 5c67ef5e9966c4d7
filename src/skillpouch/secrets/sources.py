"""Where secrets come from: a function of a session and a name."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from skillpouch.environment import variable
from skillpouch.needs import Need
from skillpouch.runtime.memoize import BoundedCache
from skillpouch.secrets.redaction import NO_SECRETS, Redactor


class Secrets(Protocol):
    """A source of secrets: the process environment by default, a vault, a user's own keys."""

    def __call__(self, session: str | None, name: str, /) -> str | None: ...


def environment_secrets(session: str | None, name: str) -> str | None:  # noqa: ARG001 - the interface
    """Return the environment variable of that name, the same for every session."""
    return variable(name)


_MOST_REDACTORS = 64  # one for each set of secret values that a skill had


class SecretValues:
    """Looks values up for each call; makes one redactor for equal values."""

    def __init__(self, secrets: Secrets, session: str | None) -> None:
        self._secrets = secrets
        self._session = session
        self._redactors: BoundedCache[tuple[tuple[str, str], ...], Redactor]
        self._redactors = BoundedCache(_MOST_REDACTORS)

    def of(self, needs: Sequence[Need]) -> dict[str, str]:
        """Return the secrets that the needs name and that have a value."""
        if not needs:
            return {}
        names = dict.fromkeys(need.value for need in needs if need.kind == "secret")
        found = {name: self._secrets(self._session, name) for name in names}
        return {name: value for name, value in found.items() if value}

    def redactor(self, values: Mapping[str, str]) -> Redactor:
        """Return the redactor for these values."""
        if not values:
            return NO_SECRETS
        key = tuple(sorted(values.items()))
        found = self._redactors.get(key)
        if found is None:
            found = self._redactors[key] = Redactor(dict(values))
        return found
