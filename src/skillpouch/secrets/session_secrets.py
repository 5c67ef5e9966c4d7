"""The secrets of one session: their values by name, and what takes them out of texts."""

from collections.abc import Mapping, Sequence

from skillpouch.calls import NO_SECRETS
from skillpouch.needs import Need
from skillpouch.secrets.redaction import Redactor
from skillpouch.secrets.sources import Secrets

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
