"""The one seam through which secrets come: a session and a name in, a value out."""

from collections.abc import Iterable
from typing import Protocol

from skillpouch.environment import variable
from skillpouch.needs import Need
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
