"""Which variables are plain settings, and which values must stay secret."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillpouch.needs import Need
from skillpouch.secrets.shapes import is_setting, reason_against_plain
from skillpouch.secrets.sources import SecretValues


@pytest.mark.parametrize(
    "name",
    [
        *("JAVA_HOME", "REPORT_DIR", "MODEL_PATH", "LD_LIBRARY_PATH", "SKILLS_REGISTRY"),
        *(
            "SCANNER_PYTHON",
            "BRIDGE_URL",
            "MAX_ROWS",
            "SCAN_ENGINE",
            "REQUEST_TIMEOUT",
            "THREAD_ID",
        ),
        "MAX_OUTPUT_TOKENS",
    ],
)
def test_what_a_name_says_is_no_secret_is_a_setting(name: str) -> None:
    assert is_setting(name)


@pytest.mark.parametrize(
    "name",
    [
        *("API_KEY", "DATABASE_URL", "MAX_TOKEN", "HOME", "DIR", "WEBHOOK_PATH", "AUTH_TOKEN_DIR"),
        *("SSH_PRIVATE_KEY_PATH", "SECRETS_DIR", "report_dir", "SLACK_WEBHOOK_URL", "OPENAI"),
        "AWS_ACCESS_KEY_ID",
    ],
)
def test_any_other_name_is_a_secret_until_somebody_says_more(name: str) -> None:
    assert not is_setting(name)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("REPORT_DIR", "/srv/reports 2026"),
        ("OLLAMA_URL", "http://localhost:11434/api/v1"),
        ("LOG_LEVEL", "debug"),
        ("SEARCH_PATH", "/opt/a:/opt/b"),
    ],
)
def test_a_plain_value_may_be_shown(name: str, value: str) -> None:
    assert reason_against_plain(name, value) == ""


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("DATABASE_URL", "https://db.example.com", "name is that of a secret"),
        ("STORE_URL", "postgres://db.example.com/x", "usually holds a password"),
        ("API_URL", "https://ada:pw@api.example.com", "a user in it"),
        ("API_URL", "https://ada@api.example.com", "a user in it"),
        ("API_URL", "https://api.example.com/?sig=1", "a query in it"),
        ("API_URL", "https://api.example.com/#t", "a query in it"),
        ("API_URL", "https://h.example.com/9xK2mQ7vLp4RtZ8wYb3N/in", "looks like a key"),
        ("DATA_DIR", "9xK2mQ7vLp4RtZ8wYb3NcD5f", "looks like a key"),
        ("DATA_DIR", "/a\n/b", "not one line"),
        ("API_URL", "http://[", "cannot be read"),
    ],
)
def test_a_value_with_a_user_a_query_or_a_key_is_never_plain(
    name: str, value: str, reason: str
) -> None:
    assert reason in reason_against_plain(name, value)


@given(user=st.text(min_size=1), password=st.text(min_size=1))
def test_no_address_with_a_password_is_plain(user: str, password: str) -> None:
    assert reason_against_plain("SITE_URL", f"https://{user}:{password}@example.com/")


def test_only_the_value_tells_whether_a_setting_is_plain() -> None:
    kept = {"A_DIR": "/srv/a", "B_PATH": "https://ada:pw@example.com", "C_HOME": None}
    values = SecretValues(lambda _session, name: kept[name], None)
    needs = [Need(kind="setting", value=name) for name in (*kept, "D_DIR=/srv/d")]

    assert values.settings(needs) == {"A_DIR": "/srv/a", "D_DIR": "/srv/d"}
    assert values.of(needs) == {"B_PATH": "https://ada:pw@example.com"}
