"""policy.toml: what it can say, and what is said about what it cannot."""

import os
from pathlib import Path

import pytest

from skillpouch import Policy
from skillpouch.errors import PolicyFileError
from skillpouch.policy import (
    Absent,
    Condition,
    Equals,
    Example,
    Glob,
    Greater,
    Less,
    LimitRule,
    Present,
    Regex,
    Rule,
)
from skillpouch.policy.approval import ApprovalSettings, WebhookSettings
from skillpouch.policy.loading import parse_project, parse_user_policy, read_approval_settings
from skillpouch.policy.project import Project

FULL = b"""
mode = "trusting"
allowed_tools = "advice"
require = ["fs", "net"]
require_journal = true
answer_seconds = 20

[[rules]]
name = "no-force"
verdict = "deny"
tools = ["git.push", "git.*"]
skills = "git"
effects = ["network"]
needs = ["host"]
reason = "history stays"
when = [
  {argument = "options.force", equals = true},
  {argument = "branch", glob = "main*", regex = "^m"},
  {argument = "count", greater = 1, less = 9.5, present = true},
  {argument = "dry", absent = true},
]
unless = [{argument = "who", equals = "me"}]
[[rules.examples.match]]
tool = "git.push"
effects = ["network"]
needs = ["host:example.com"]
arguments = {options = {force = true}, branch = "main", count = 2}
[[rules.examples.no_match]]
tool = "git.push"
skill = "other"

[[limits]]
timeout_seconds = 5
[[limits]]
tools = ["video.*"]
skills = "video"
timeout_seconds = 600.5
memory_bytes = "unlimited"
"""


def refused(data: str | bytes) -> list[str]:
    """Return code, line and message of each problem."""
    content = data.encode() if isinstance(data, str) else data
    with pytest.raises(PolicyFileError) as raised:
        parse_user_policy(content, "the.toml")
    return [f"{p.code} {p.line}: {p.message}" for p in raised.value.problems]


def test_a_policy_file_says_everything_a_policy_can() -> None:
    policy = parse_user_policy(FULL, "p.toml")

    assert policy == Policy(
        mode="trusting",
        allowed_tools="advice",
        require=["fs", "net"],
        require_journal=True,
        answer_seconds=20,
        rules=[
            Rule(
                verdict="deny",
                name="no-force",
                tools=["git.push", "git.*"],
                skills=["git"],
                effects=["network"],
                needs=["host"],
                reason="history stays",
                origin="p.toml",
                when=[
                    Condition(argument="options.force", test=Equals(True)),
                    Condition(argument="branch", test=Glob("main*")),
                    Condition(argument="branch", test=Regex("^m")),
                    Condition(argument="count", test=Greater(1)),
                    Condition(argument="count", test=Less(9.5)),
                    Condition(argument="count", test=Present()),
                    Condition(argument="dry", test=Absent()),
                ],
                unless=[Condition(argument="who", test=Equals("me"))],
                match=[
                    Example(
                        tool="git.push",
                        effects=("network",),
                        needs=("host:example.com",),
                        arguments={"options": {"force": True}, "branch": "main", "count": 2},
                    )
                ],
                no_match=[Example(tool="git.push", skill="other")],
            )
        ],
        limits=[
            LimitRule(values={"timeout_seconds": 5}),
            LimitRule(
                tools=["video.*"],
                skills=["video"],
                values={"timeout_seconds": 600.5, "memory_bytes": None},
            ),
        ],
    )


def test_an_empty_file_is_the_policy_out_of_the_box() -> None:
    assert parse_user_policy(b"") == Policy()
    assert parse_project(b"") == Project()


def test_everything_wrong_with_a_file_is_said_at_once_with_key_line_and_fix() -> None:
    text = """mode = "brave"
colour = 1
require = ["moat"]
answer_seconds = true

[[rules]]
name = "first"
verdit = "deny"
tools = []
effects = ["burn"]
when = [{argument = "a"}, {argument = "", present = true}, {argument = "a", equls = 1}]

[[rules]]
verdict = "deny"
skills = [1]
reason = 7
needs = ["gold"]
when = [{argument = "a", greater = "1", present = false, glob = 1, equals = 2020-01-01}]
examples = {match = [{tool = 1, arguments = 3, needs = ["iron"]}]}

[[limits]]
timeout_seconds = -1
keep_bytes = 1.5
kill_bytes = "unlimited"
speed = 3
"""

    assert refused(text) == [
        "policy-value 1: mode: is 'brave': use 'trusting' or 'careful' or 'strict'",
        (
            "policy-value 3: require: 'moat' is not a protection: use one of fs, net, tree, "
            "signals, memory, processes, syscalls"
        ),
        "policy-value 4: answer_seconds: must be a number above zero, up to 86400, not True",
        "policy-value 6: rules 1 ('first'): verdict: is None: use 'allow', 'ask' or 'deny'",
        (
            "policy-value 6: rules 1 ('first'): tools: is an empty list: leave the key out, "
            "which means all"
        ),
        (
            "policy-value 6: rules 1 ('first'): effects: 'burn' is not an effect: use one of read, "
            "write, network, destructive, execute"
        ),
        (
            "policy-value 6: rules 1 ('first'): when 1: says nothing about 'a': add equals, glob, "
            "regex, command, greater, less, present, absent"
        ),
        (
            "policy-value 6: rules 1 ('first'): when 2: argument: '' names no argument: write a "
            "key, or keys like 'a.b'"
        ),
        "policy-key 6: rules 1 ('first'): when 3: equls: is not a key here: did you mean 'equals'?",
        (
            "policy-value 6: rules 1 ('first'): when 3: says nothing about 'a': add equals, glob, "
            "regex, command, greater, less, present, absent"
        ),
        "policy-key 6: rules 1 ('first'): verdit: is not a key here: did you mean 'verdict'?",
        "policy-value 13: rules 2: skills: must be a list of texts, not [1]",
        (
            "policy-value 13: rules 2: when 1: equals: must be a JSON value, not "
            "datetime.date(2020, 1, 1)"
        ),
        "policy-value 13: rules 2: when 1: glob: must be text, not 1",
        "policy-value 13: rules 2: when 1: greater: must be a number, not '1'",
        (
            "policy-value 13: rules 2: when 1: present: can only be true: the opposite "
            "of present is absent"
        ),
        "policy-value 13: rules 2: reason: must be text, not 7",
        "policy-value 13: rules 2: examples: match 1: tool: must be text, not 1",
        (
            "policy-value 13: rules 2: examples: match 1: tool: is missing: the id of a tool, such "
            "as 'git.push'"
        ),
        (
            "policy-value 13: rules 2: examples: match 1: needs: 'iron' is not a need: write one "
            "of secret, setting, host, read, write, packages, build, program, local-sockets, "
            "loopback, memory, devices, time, own-folder, commands, unconfined,"
            " or like 'host:api.example.com'"
        ),
        "policy-value 13: rules 2: examples: match 1: arguments: must be a table, not 3",
        (
            "policy-rule 13: rules 2: 'gold' is not a need: write one of secret, setting, "
            "host, read, write, packages, build, program, local-sockets, loopback, memory, "
            "devices, time, own-folder, commands, unconfined, "
            "or like 'host:api.example.com'"
        ),
        (
            "policy-value 21: limits 1: timeout_seconds: timeout_seconds must be a number above "
            "zero, not -1"
        ),
        (
            "policy-value 21: limits 1: keep_bytes: keep_bytes must be a whole number above zero, "
            "not 1.5"
        ),
        "policy-value 21: limits 1: kill_bytes: kill_bytes needs a number, not 'unlimited'",
        (
            "policy-key 21: limits 1: speed: is not a key here: there are tools, skills, "
            "timeout_seconds, keep_bytes, kill_bytes, memory_bytes, processes, open_files, "
            "file_bytes, cpu_seconds, writes"
        ),
        (
            "policy-key 2: colour: is not a key here: there are mode, allowed_tools, require, "
            "require_journal, answer_seconds, writes, rules, limits, jobs, approvals"
        ),
    ]


def test_the_error_is_one_message_with_a_next_step() -> None:
    with pytest.raises(PolicyFileError) as raised:
        parse_user_policy(b"mode = 1\nx = 2", "p.toml")

    assert raised.value.code == "policy_file"
    assert raised.value.path == "p.toml"
    assert str(raised.value) == (
        "p.toml cannot be used: line 1: mode: is 1: use 'trusting' or 'careful' or 'strict'; "
        "line 2: x: is not a key here: there are mode, allowed_tools, require, "
        "require_journal, answer_seconds, writes, rules, limits, jobs, approvals"
    )
    assert raised.value.hint.startswith("correct the file, or move it away")


def test_a_file_of_nonsense_gives_fifty_problems_and_no_more() -> None:
    assert len(refused("\n".join(f"key{n} = 1" for n in range(1000)))) == 50
    assert len(refused("[[rules]]\nverdict = 1\n" * 1000)) == 50


@pytest.mark.promise("pol-8")
def test_an_example_that_fails_names_the_rule_and_its_line() -> None:
    text = """
[[rules]]
name = "pushes"
verdict = "ask"
tools = ["git.push"]
examples = {match = [{tool = "git.pull"}], no_match = [{tool = "git.push"}]}
"""

    assert refused(text) == [
        "policy-rule 2: rules 1 ('pushes'): the rule does not match examples.match 1 (git.pull)",
        "policy-rule 2: rules 1 ('pushes'): the rule matches examples.no_match 1 (git.push)",
    ]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"mode = ", "policy-syntax 1: it is not TOML: invalid value"),
        (b"a = 1\na = 2", "policy-syntax 2: it is not TOML: cannot overwrite a value"),
        (b'a = "', "policy-syntax 1: it is not TOML: unterminated string"),
        (b"\n\n\xff", "policy-syntax 3: it is not UTF-8 text"),
        (b"a = " + b"9" * 5000, "policy-syntax None: it is not TOML: Exceeds the limit"),
        (b"a = " + b"[" * 100_000, "policy-syntax None: its lists or tables are nested"),
        (b"a = " + b"[" * 20 + b"]" * 20, "policy-syntax None: its lists or tables are nested"),
        (b"\n" + b"a." * 100_000 + b"a = 1", "policy-syntax 2: a line with more than 100 dots"),
        (b"rules = 1", "policy-value 1: rules: must be a list of tables, not 1"),
        (b"require_journal = 1", "policy-value 1: require_journal: must be true or false, not 1"),
        (b"mode = 0x" + b"f" * 5000, "policy-value 1: mode: is a huge number: use"),
        ('mode = "\u202e"'.encode(), "policy-value 1: mode: is '\\u202e': use"),
        ('"\u202e" = 1'.encode(), "policy-key None: '\\u202e': is not a key here"),
        (b'"" = 1', "policy-key None: '': is not a key here"),
        (b"mode = '" + b"x" * 99 + b"'", f"policy-value 1: mode: is '{'x' * 59}…: use"),
        (b"rules = [{verdict = 1}]", "policy-value 1: rules 1: verdict: is 1: use"),
        (b"[grants]", "policy-place 1: grants: grants are made by `skillpouch trust NAME`"),
        (
            b"[[requests]]",
            "policy-place 1: requests: requests belong in a project's skillpouch.toml",
        ),
    ],
    ids=[str(number) for number in range(18)],
)
def test_what_is_no_policy_is_refused_with_its_place(data: bytes, problem: str) -> None:
    (told,) = refused(data)

    assert told.startswith(problem)


@pytest.fixture
def own_config() -> Path:
    """The user's folder of settings, of this test alone."""
    return Path(os.environ["XDG_CONFIG_HOME"])


def approvals(text: str, folder: Path) -> ApprovalSettings:
    path = folder / "skillpouch" / "policy.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    parse_user_policy(text.encode())  # every call reads the file, and minds none of this
    return read_approval_settings()


def test_the_settings_of_approvals_are_read(own_config: Path) -> None:
    assert read_approval_settings() == ApprovalSettings()
    assert approvals('mode = "strict"\n', own_config) == ApprovalSettings(keep_days=7.0)

    found = approvals(
        "[approvals]\nkeep_days = 0.5\nanswered_by = ['webhook', 'user']\n[approvals.webhook]\n"
        "url = 'https://hooks.example.com/a?b=c'\nsecret = 'HOOK_SECRET'\n",
        own_config,
    )

    assert found == ApprovalSettings(
        keep_days=0.5,
        answered_by=("user", "webhook"),
        webhook=WebhookSettings(url="https://hooks.example.com/a?b=c", secret="HOOK_SECRET"),
    )


@pytest.mark.promise("hook-3")
@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:8080/", "http://localhost/x", "https://10.0.0.1/", "https://hook.internal"],
)
def test_a_webhook_inside_has_to_be_meant(url: str, own_config: Path) -> None:
    text = f"[approvals.webhook]\nurl = '{url}'\nsecret = 'HOOK'\n"

    with pytest.raises(PolicyFileError, match="internal = true"):
        parse_user_policy(text.encode())

    found = approvals(f"{text}internal = true\n", own_config).webhook
    assert found == WebhookSettings(url=url, secret="HOOK", internal=True)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("keep_days = 0", "must be above zero, up to 366, not 0"),
        ("keep_days = true", "must be above zero, up to 366, not True"),
        ("keep_days = 400", "must be above zero, up to 366, not 400"),
        ("answered_by = ['me']", "'me' answers nothing: use some of user, caller, webhook"),
        ("webhook = 'https://example.com'", "must be a table"),
        ("webhook = {url = 'https://example.com'}", "name the environment variable that has it"),
        ("webhook = {url = 'ftp://example.com', secret = 'A'}", "use an address such as"),
        ("webhook = {url = 'https://a@example.com', secret = 'A'}", "use an address such as"),
        ("webhook = {url = 'http://example.com', secret = 'A'}", "is not https"),
        ("webhook = {url = 'https://example.com', secret = 'a b'}", "name the environment"),
        ("webhooks = 1", "did you mean 'webhook'?"),
    ],
)
def test_wrong_settings_of_approvals_are_told(line: str, told: str) -> None:
    with pytest.raises(PolicyFileError) as raised:
        parse_user_policy(f"[approvals]\n{line}\n".encode())

    assert any(told in problem.message for problem in raised.value.problems)


@pytest.mark.promise("hook-1")
@pytest.mark.parametrize(
    "text",
    [
        "[approvals]\nkeep_days = 1\n",
        "[approvals.webhook]\nurl = 'https://example.com'\nsecret = 'A'\n",
        "webhook = 'https://example.com'\n",
        "approver = 'me'\n",
    ],
)
def test_a_project_cannot_say_who_is_asked_or_answers(text: str) -> None:
    with pytest.raises(PolicyFileError) as raised:
        parse_project(text.encode())

    (problem,) = raised.value.problems
    assert problem.code == "policy-place"
    assert "who is asked or answers" in problem.message
