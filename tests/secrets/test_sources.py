"""The seam of secrets: what was granted and has a value, and an error for everything else."""

from dataclasses import dataclass, field

import pytest

from skillpouch.secrets.sources import secrets_for
from skillpouch.trust.errors import SecretUnsetError, UngrantedError
from skillpouch.trust.grant import Grant

GRANT = Grant(skill="demo", home="/demo", digest="0" * 64, secrets=("API_KEY", "TOKEN"))


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

    assert secrets_for(["API_KEY", "API_KEY"], GRANT, skill="demo") == {"API_KEY": "hunter2"}


def test_a_vault_is_asked_by_session_and_name() -> None:
    vault = Vault({"API_KEY": "a", "TOKEN": "t"})

    found = secrets_for(["TOKEN", "API_KEY"], GRANT, vault, skill="demo", session="s1")

    assert found == {"TOKEN": "t", "API_KEY": "a"}
    assert vault.asked == [("s1", "TOKEN"), ("s1", "API_KEY")]


@pytest.mark.promise("grant-10")
@pytest.mark.parametrize("grant", [None, GRANT])
def test_nobody_is_asked_for_a_secret_that_was_not_granted(grant: Grant | None) -> None:
    vault = Vault({"OTHER": "x", "API_KEY": "a"})

    with pytest.raises(UngrantedError) as caught:
        secrets_for(["API_KEY", "OTHER"], grant, vault, skill="demo")

    assert "--secret OTHER" in caught.value.hint
    assert vault.asked == []


@pytest.mark.promise("grant-10")
@pytest.mark.parametrize("value", [None, ""])
def test_a_secret_without_a_value_is_an_error_and_no_empty_text(
    value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("API_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("API_KEY", value)

    with pytest.raises(SecretUnsetError) as caught:
        secrets_for(["API_KEY"], GRANT, skill="demo")

    error = caught.value
    assert (error.code, error.names) == ("secret_unset", ("API_KEY",))
    assert str(error) == "cannot start demo: API_KEY is granted but not set"
    assert error.hint == "set it where Skillpouch runs: export API_KEY=…"
