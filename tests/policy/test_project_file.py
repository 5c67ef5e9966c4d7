"""skillpouch.toml: it tightens, requests and arranges, and has no way to loosen."""

from pathlib import Path

import pytest

from skillpouch import Limits, Policy
from skillpouch.environment import config_directory
from skillpouch.errors import PolicyFileError
from skillpouch.needs import Need
from skillpouch.policy import (
    LimitRule,
    Request,
    Rule,
    load_policy,
)
from skillpouch.policy.loading import parse_project
from skillpouch.policy.project import Project, ServerTable, SkillRequest


def refused(data: str) -> list[str]:
    """Return code, line and message of each problem."""
    with pytest.raises(PolicyFileError) as raised:
        parse_project(data.encode(), "skillpouch.toml")
    return [f"{p.code} {p.line}: {p.message}" for p in raised.value.problems]


PROJECT = b"""
mode = "strict"
allowed_tools = "enforce"
require = ["fs"]
require_journal = true

[[rules]]
verdict = "ask"
tools = ["deploy.*"]
[[limits]]
timeout_seconds = 10

[[requests]]
skill = "web"
needs = ["secret:API_KEY", "unconfined"]
reason = "to fetch"

[configuration]
roots = ["skills", "more/skills"]
workspace = "out"
"""


def test_a_project_tightens_requests_and_arranges() -> None:
    assert parse_project(PROJECT) == Project(
        strict=True,
        enforce_allowed_tools=True,
        require=frozenset({"fs"}),
        require_journal=True,
        rules=(Rule(verdict="ask", tools=["deploy.*"], origin="skillpouch.toml"),),
        limits=(LimitRule(values={"timeout_seconds": 10}, lower_only=True),),
        requests=(
            SkillRequest(
                skill="web",
                needs=(
                    Need(kind="secret", value="API_KEY", asked_in="skillpouch.toml"),
                    Need(kind="unconfined", asked_in="skillpouch.toml"),
                ),
                reason="to fetch",
            ),
        ),
        roots=(Path("skills"), Path("more/skills")),
        workspace=Path("out"),
    )


@pytest.mark.promise("pol-5")
def test_a_project_has_no_way_to_loosen() -> None:
    text = """
mode = "trusting"
allowed_tools = "advice"
answer_seconds = 9
secrets = ["API_KEY"]
[[rules]]
verdict = "allow"
[[limits]]
memory_bytes = "unlimited"
[[requests]]
needs = ["gold"]
[configuration]
roots = ["../other", "/srv"]
workspace = "a/../.."
"""
    yours = "a project cannot loosen anything: it belongs in your own policy.toml"

    assert refused(text) == [
        f"policy-place 2: mode: can only be 'strict' here, not 'trusting': {yours}",
        f"policy-place 3: allowed_tools: can only be 'enforce' here, not 'advice': {yours}",
        f"policy-place 6: rules 1: verdict: {yours}",
        "policy-place 8: limits 1: memory_bytes: only your own policy.toml can lift a limit",
        "policy-value 10: requests 1: skill: is missing: the name of a skill of this project",
        (
            "policy-value 10: requests 1: needs: 'gold' is not a need: write one of secret, "
            "setting, host, read, write, packages, build, program, local-sockets, loopback, "
            "memory, devices, time, own-folder, commands, unconfined,"
            " or like 'host:api.example.com'"
        ),
        "policy-value 10: requests 1: needs: is missing: a list such as ['host:api.example.com']",
        (
            "policy-place 12: configuration: roots: '../other' leads out of the project: name a "
            "folder below it"
        ),
        (
            "policy-place 12: configuration: roots: '/srv' leads out of the project: name a folder "
            "below it"
        ),
        (
            "policy-place 12: configuration: workspace: 'a/../..' leads out of the project: name a "
            "folder below it"
        ),
        f"policy-place 4: answer_seconds: {yours}",
        (
            "policy-place 5: secrets: a project cannot grant itself anything:"
            " run `skillpouch trust NAME`"
        ),
    ]


@pytest.mark.promise("pol-5")
def test_a_project_made_in_python_cannot_allow_either() -> None:
    with pytest.raises(ValueError, match=r"a project cannot allow anything: allow \*"):
        Project(rules=(Rule(verdict="allow"),))


def write_config(text: str) -> Path:
    directory = config_directory()
    assert directory is not None
    directory.mkdir(parents=True)
    path = directory / "policy.toml"
    path.write_text(text)
    return path


def test_the_policy_that_holds_is_the_users_tightened_by_the_projects(tmp_path: Path) -> None:
    write_config(
        'mode = "trusting"\nallowed_tools = "advice"\nrequire = ["net"]\n'
        "[[limits]]\ntimeout_seconds = 60\nmemory_bytes = 1000\n"
    )
    (tmp_path / "skillpouch.toml").write_bytes(PROJECT)

    policy = load_policy(tmp_path)

    assert (policy.mode, policy.allowed_tools, policy.require_journal) == (
        "strict",
        "enforce",
        True,
    )
    assert policy.require == {"net", "fs"}
    assert policy.limits_for("a.b", "a", Limits()) == Limits(timeout_seconds=10, memory_bytes=1000)
    asked = Request(tool="deploy.now", skill="deploy", confined=True, first_use=False)
    assert policy.decide(asked).reasons == ("rule 'ask deploy.*' asks about it",)
    assert load_policy().mode == "trusting"


def test_a_project_without_a_file_changes_nothing(tmp_path: Path) -> None:
    assert load_policy(tmp_path) == Policy()


@pytest.mark.promise("pol-5")
def test_limits_of_a_project_only_lower() -> None:
    loose = parse_project(
        b"[[limits]]\ntimeout_seconds = 500\nkeep_bytes = 10\ncpu_seconds = 3\n"
        b"[[limits]]\ntools = ['x.*']\nprocesses = 1\n"
    )

    policy = Policy().tightened_by(loose)

    assert policy.limits_for("a.b", "a", Limits()) == Limits(keep_bytes=10, cpu_seconds=3)
    assert policy.limits_for("x.y", "x", Limits()).processes == 1


def test_a_limit_rule_of_nothing_lowers_nothing() -> None:
    rule = LimitRule(values={"memory_bytes": None}, lower_only=True)

    assert rule.apply(Limits(memory_bytes=5)) == Limits(memory_bytes=5)
    assert rule.apply(Limits(memory_bytes=None)) == Limits(memory_bytes=None)


@pytest.mark.parametrize(
    "values", [{"speed": 1}, {"timeout_seconds": None}, {"processes": 0}, {"processes": True}]
)
def test_a_limit_that_is_none_is_refused(values: dict[str, float | None]) -> None:
    with pytest.raises(ValueError, match=r"speed|timeout_seconds|processes"):
        LimitRule(values=values)


def test_a_project_says_how_much_its_servers_take() -> None:
    project = parse_project(b"[server]\nmost_running = 8\ndrain_seconds = 0\n")

    assert project.server == ServerTable(most_running=8, drain_seconds=0)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("listen = '0.0.0.0:1'", "policy-place"),
        ("token_file = 'known-to-strangers'", "policy-place"),
        ("most_running = 0", "policy-value"),
        ("most_running = true", "policy-value"),
        ("most_running = 5000", "policy-value"),
    ],
)
def test_a_project_says_nothing_else_about_servers(line: str, code: str) -> None:
    with pytest.raises(PolicyFileError) as caught:
        parse_project(f"[server]\n{line}\n".encode())

    assert [problem.code for problem in caught.value.problems] == [code]
