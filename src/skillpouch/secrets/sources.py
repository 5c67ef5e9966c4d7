"""Where secrets and settings come from: a function of a session and a name."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from skillpouch.environment import variable
from skillpouch.needs import Need
from skillpouch.runtime.memoize import BoundedCache
from skillpouch.secrets.redaction import NO_SECRETS, Redactor
from skillpouch.secrets.shapes import reason_against_plain


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
        asked = [need for need in self.resolved(needs) if need.kind == "secret"]
        found = {need.value: self._value(need) for need in asked}
        return {name: value for name, value in found.items() if value}

    def settings(self, needs: Sequence[Need]) -> dict[str, str]:
        """Return the plain variables that the needs name and that have a value."""
        plain = (need for need in self.resolved(needs) if need.kind == "setting")
        pairs = (need.value.partition("=") for need in plain)
        return {name: value for name, _, value in pairs if value}

    def resolved(self, needs: Iterable[Need]) -> Iterator[Need]:
        """Yield needs with the values of settings: as `NAME=value`, or as secrets if they are.

        Only the value tells whether an address has a password in it. A setting without a value
        stays as it is.
        """
        for need in needs:
            is_open = need.kind == "setting" and "=" not in need.value
            value = self._value(need) if is_open else None
            if not value:
                yield need
            elif reason_against_plain(need.value, value):
                yield replace(need, kind="secret")
            else:
                yield replace(need, value=f"{need.value}={value}")

    def _value(self, need: Need) -> str | None:
        return self._secrets(self._session, need.value)

    def redactor(self, values: Mapping[str, str]) -> Redactor:
        """Return the redactor for these values."""
        if not values:
            return NO_SECRETS
        key = tuple(sorted(values.items()))
        found = self._redactors.get(key)
        if found is None:
            found = self._redactors[key] = Redactor(dict(values))
        return found
