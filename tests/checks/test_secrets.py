import sysconfig
from base64 import urlsafe_b64encode
from pathlib import Path

import pytest

from skillpouch.checks.secrets import find_secrets
from skillpouch.problems import Problem

# Made up, and put together only here, so that no scanner takes this file for a leak.
KEY = "Qm7ZtR4wXb9LcV2nHs8JfK3pGd6YaTe5UoBi0"
HEX = "9f86d081e57c4a0b3d2c1e8f7a6b5940"
PEM = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"


HEADER = '{"alg": "HS256"}'
MADE_UP = '{"sub": "test"}'
PAYLOAD = '{"sub": "8842", "name": "Ada"}'


def found(text: str, path: str = "scripts/run.py") -> list[str]:
    return [problem.message.partition(":")[0] for problem in find_secrets(path, text)]


def test_a_secret_is_named_by_kind_and_line_and_never_repeated() -> None:
    problems = find_secrets("scripts/run.py", f"import os\n\nclient = Client('ghp_{KEY}')\n")

    assert problems == [
        Problem(
            path="scripts/run.py",
            code="hardcoded-secret",
            severity="warning",
            message="hard-coded GitHub token (ghp_…): read it from an environment variable, "
            "and revoke it if it is real",
            line=3,
        )
    ]


@pytest.mark.parametrize(
    ("token", "kind"),
    [
        (f"sk-{KEY}", "OpenAI-style API key (sk-Q…)"),
        (f"sk-proj-{KEY}_{KEY}", "OpenAI-style API key (sk-p…)"),
        (f"sk-{HEX}", "OpenAI-style API key (sk-9…)"),
        (f"sk-ant-api03-{KEY}-{KEY}", "Anthropic API key (sk-a…)"),
        (f"github_pat_{KEY}_{KEY}", "GitHub token (gith…)"),
        (f"glpat-{KEY[:20]}", "GitLab token (glpa…)"),
        (f"xoxb-3401827365-{KEY[:24]}", "Slack token (xoxb…)"),
        (f"AKIA{'Q2W3E4R5T6Y7U2I3'}", "AWS access key id (AKIA…)"),
        (f"AIza{KEY[:35]}", "Google API key (AIza…)"),
        (f"hf_{KEY[:34]}", "Hugging Face token (hf_Q…)"),
        (f"npm_{KEY[:36]}", "npm token (npm_…)"),
        (f"sk_live_{KEY[:24]}", "Stripe live key (sk_l…)"),
        (f"eyJhbGciOiJFUzI1NiJ9.eyJ{KEY}.{KEY}", "JSON web token (eyJh…)"),
        (
            f"https://hooks.slack.com/services/T04QZK7RB/B05LMX2WD/{KEY[:24]}",
            "Slack webhook (hook…)",
        ),
        (f"-----BEGIN RSA PRIVATE KEY-----\n{PEM}\n", "private key"),
        (f"-----BEGIN PRIVATE KEY-----\\n{PEM}\\n", "private key"),
        ("postgres://app:Tr0ub4dor@db.corp.net/main", "password in a postgres address"),
        (f"redis://:{KEY}@localhost:6379", "password in a redis address"),
    ],
)
def test_the_shapes_of_known_providers_are_found(token: str, kind: str) -> None:
    assert found(f'value = f("{token}")') == [f"hard-coded {kind}"]


def test_the_secret_beside_an_aws_key_id_is_found_with_it() -> None:
    text = f"id: AKIAQ2W3E4R5T6Y7U2I3\nother: {KEY}+/8\n"

    assert found(text) == [
        "hard-coded AWS access key id (AKIA…)",
        "hard-coded AWS secret access key",
    ]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.py", f'API_KEY = "{KEY}"'),
        ("a.py", f'token: str = "{HEX}"'),
        ("a.py", f'os.environ.get("SERVICE_TOKEN", "{KEY}")'),
        ("a.py", f'headers = {{"Authorization": "Bearer {KEY}"}}'),
        ("a.js", f"const clientSecret = '{KEY}';"),
        ("a.json", f'{{"password": "{KEY}"}}'),
        ("a.rb", f'config[:api_key] => "{KEY}"'),
        ("a.sh", f"export API_KEY={KEY}"),
        (".env", f"SECRET_KEY={KEY}"),
        (".env.local", f"DB_PASSWORD={KEY}"),
        ("a.yml", f"password: {KEY}"),
        ("SKILL.md", f"curl 'https://api.test/v1?api_key={KEY}&page=2'"),
    ],
)
def test_a_generated_value_given_to_a_secret_name_is_found(path: str, text: str) -> None:
    [problem] = find_secrets(path, text)

    assert problem.message.startswith("hard-coded credential (")
    assert KEY[:5] not in problem.message


def test_a_token_of_a_known_provider_is_reported_once() -> None:
    assert found(f'api_key = "ghp_{KEY}"') == ["hard-coded GitHub token (ghp_…)"]


@pytest.mark.parametrize(
    "text",
    [
        'api_key = "your-api-key"',
        'api_key = "YOUR_API_KEY_1234567890"',
        'api_key = "xxxxxxxxxxxxxxxxxxxxxxxx"',
        'token = "<TOKEN>"',
        "OPENAI_API_KEY=sk-...",
        "OPENAI_API_KEY=sk-1234...",
        "OPENAI_API_KEY=sk-1234567890abcdef1234567890abcdef",
        f"OPENAI_API_KEY=sk-{HEX}...",
        'Authorization: "Bearer ${env:API_KEY}"',
        'password: "changeme"',
        'password = "correct-horse-battery-staple"',
        "aws_access_key_id = AKIAIOSFODNN7EXAMPLE",
        "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX",
        "postgres://user:password@localhost:5432/db",
        "postgres://app:dev@db:5432/app",
        "postgresql://scott:tiger@db.example.com/test",
        "https://user:hunter22@proxy.corp.net",
        "mysql://root:${DB_PASSWORD}@db.corp.net",
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
        f"Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.{KEY}",
    ],
)
def test_a_placeholder_is_no_secret(text: str) -> None:
    assert found(text, "SKILL.md") == []


@pytest.mark.parametrize(
    "text",
    [
        f'sha256_token = "{HEX}{HEX}"',
        f'"password_hash": "{HEX}"',
        f'public_key_token = "{HEX}"',
        f'next_token = "{KEY}"',
        'token_url = "https://auth.corp.net/oauth2/token/v2"',
        'api_key_path = "secrets/prod/api-key-2024.json"',
        'token_model = "gpt-4o-mini-2024-07-18"',
        "password = getpass.getpass()",
        'token = tokens["access_token_2024_v2"]',
        'if token == "sk-fading-circle-spinner-container": ...',
        f'"AWS::IAM::AccessKey": "{HEX[:16]}"',
    ],
)
def test_names_digests_cursors_and_code_are_no_secrets(text: str) -> None:
    assert found(text, "a.py") == []


@pytest.mark.parametrize("name", ["package-lock.json", "uv.lock", "pnpm-lock.yaml", "yarn.lock"])
def test_lock_files_are_not_searched(name: str) -> None:
    assert find_secrets(f"skill/{name}", f'"token": "{KEY}"') == []


def test_a_dotted_capital_i_does_not_move_what_is_found() -> None:
    [problem] = find_secrets("a.py", f'# İİİİ\nAPI_KEY = "{KEY}"')

    assert (problem.line, problem.message[:25]) == (2, "hard-coded credential (Qm")


@pytest.mark.slow
def test_nothing_in_the_standard_library_looks_like_a_secret() -> None:
    sources = Path(sysconfig.get_path("stdlib")).glob("*.py")

    problems = [p for file in sources for p in find_secrets(file.name, file.read_text("utf-8"))]

    assert problems == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    [
        *("sk-", "sk-ant-a", "eyJ", "eyJaaaaaaaaaaa.", "AKIA", "AIza", "xoxb-", "hf_a"),
        *("token=", 'token="', "token:a", "api_key", "secret", "password: "),
        *("-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "postgres://a:", "postgres://u:p@"),
    ],
)
def test_a_hostile_megabyte_is_searched_to_the_end(unit: str) -> None:
    assert find_secrets("SKILL.md", unit * (1_000_000 // len(unit))) == []


def encoded(text: str) -> str:
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "text",
    [
        "api_key = '3f8a1c9e-7b2d-4e6f-9a0b-5c8d7e1f2a3b'",
        "url = 'postgresql://user:[pass]@db.prod-hosting.com/x'",
        "url = 'postgresql://user:password@db.prod-hosting.com/x'",
        f"authorization = 'Basic {encoded('invalid:invalid42x9')}'",
        f"authorization: 'Basic {encoded('invalid:invalid')}'",
        f"t = '{encoded(HEADER)}.{encoded(MADE_UP)}.{KEY}'",
    ],
)
def test_what_tells_that_it_is_made_up_is_no_secret(text: str) -> None:
    assert found(text) == []


def test_a_token_whose_payload_names_somebody_is_a_secret() -> None:
    token = f"{encoded(HEADER)}.{encoded(PAYLOAD)}.{KEY}"

    assert len(found(f"t = '{token}'")) == 1
