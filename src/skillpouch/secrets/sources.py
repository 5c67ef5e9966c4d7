"""Where secrets come from: a session and a name in, a value out."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from skillpouch.calls import NO_SECRETS
from skillpouch.environment import variable
from skillpouch.needs import Need
from skillpouch.secrets.redaction import Redactor
from skillpouch.trust.errors import SecretUnsetError, UngrantedError
from skillpouch.trust.grant import Grant, missing


class Secrets(Protocol):
    """Whoever knows secrets: the process environment by default, a vault, a user's own keys."""

    def __call__(self, session: str | None, name: str, /) -> str | None: ...


def environment_secrets(session: str | None, name: str) -> str | None:  # noqa: ARG001 - the seam
    """Return the environment variable of that name, the same for every session."""
    return variable(name)


def secrets_for(
    names: Iterable[str],
    grant: Grant | None,
    secrets: Secrets = environment_secrets,
    *,
    skill: str,
    session: str | None = None,
) -> dict[str, str]:
    """Return the values of some secrets that a skill was granted.

    Raises UngrantedError for those it was not, before anything is asked for, and
    SecretUnsetError for those without a value: nobody gets an empty string instead.
    """
    wanted = list(dict.fromkeys(names))
    ungranted = missing((Need(kind="secret", value=name) for name in wanted), grant)
    if ungranted:
        raise UngrantedError(skill, ungranted)
    found = {name: secrets(session, name) for name in wanted}
    unset = [name for name, value in found.items() if not value]
    if unset:
        raise SecretUnsetError(skill, unset)
    return {name: value for name, value in found.items() if value}


_MOST_REDACTORS = 64  # one per skill that has secrets, and per value that a secret had


class SecretValues:
    """Looks values up anew each time; a redactor is made once for the same values."""

    def __init__(self, secrets: Secrets, session: str | None) -> None:
        self._secrets = secrets
        self._session = session
        self._redactors: dict[tuple[tuple[str, str], ...], Redactor] = {}

    def of(self, needs: Sequence[Need]) -> dict[str, str]:
        """Return the secrets among some needs that have a value."""
        if not needs:
            return {}
        names = dict.fromkeys(need.value for need in needs if need.kind == "secret")
        found = {name: self._secrets(self._session, name) for name in names}
        return {name: value for name, value in found.items() if value}

    def redactor(self, values: Mapping[str, str]) -> Redactor:
        """Return what takes these values out."""
        if not values:
            return NO_SECRETS
        key = tuple(sorted(values.items()))
        found = self._redactors.get(key)
        if found is None:
            if len(self._redactors) >= _MOST_REDACTORS:
                self._redactors.clear()
            # Kept by hand, too: another thread may clear them at this moment.
            found = self._redactors[key] = Redactor(dict(values))
        return found
