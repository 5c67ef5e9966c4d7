"""Where secrets come from: the environment by default, or whoever a caller names instead."""

from dataclasses import dataclass, field

import pytest

from skillpouch.needs import Need
from skillpouch.secrets.sources import SecretValues, environment_secrets

NEEDS = [Need(kind="secret", value="TOKEN"), Need(kind="secret", value="API_KEY")]


@dataclass
class Vault:
    """A user's own place for secrets, which remembers what it was asked."""

    values: dict[str, str]
    asked: list[tuple[str | None, str]] = field(default_factory=list)

    def __call__(self, session: str | None, name: str) -> str | None:
        self.asked.append((session, name))
        return self.values.get(name)


def test_a_granted_secret_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "hunter2")
    monkeypatch.delenv("TOKEN", raising=False)

    assert SecretValues(environment_secrets, None).of(NEEDS) == {"API_KEY": "hunter2"}


def test_a_vault_is_asked_by_session_and_name() -> None:
    vault = Vault({"API_KEY": "a", "TOKEN": "t"})

    found = SecretValues(vault, "s1").of([*NEEDS, Need(kind="host", value="example.com")])

    assert found == {"TOKEN": "t", "API_KEY": "a"}
    assert vault.asked == [("s1", "TOKEN"), ("s1", "API_KEY")]
