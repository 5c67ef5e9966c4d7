"""What a policy answers: out of the box, trusting, strict, and by rules."""

from typing import Any

import pytest

import skillpouch.policy
from skillpouch import Policy
from skillpouch.needs import Need
from skillpouch.policy import Condition, Decision, Equals, Request, Rule
from skillpouch.tools import Effect

HOME = "/home/ada/.claude/skills/web"
PLAIN: tuple[Effect, ...] = ("read", "write", "execute")
SECRET = Need(kind="secret", value="API_KEY", asked_in="metadata")
HOST = Need(kind="host", value="api.example.com")
FOUND = Need(kind="secret", value="AWS_KEY", declared=False, asked_in="scripts/a.py:3")
FOLDER = Need(kind="read", value="/srv/data")
UNCONFINED = Need(kind="unconfined")


def request(tool: str = "web.fetch", **facts: Any) -> Request:
    usual = {"effects": PLAIN, "confined": True, "first_use": False, "home": HOME}
    return Request(tool=tool, skill=tool.partition(".")[0], **{**usual, **facts})


def allow(*tools: str, **facts: Any) -> Rule:
    path = [HOME] if "needs" in facts else []
    return Rule(verdict="allow", tools=tools, path=path, **facts)


@pytest.mark.promise("pol-1")
def test_a_confined_call_that_needs_nothing_is_allowed() -> None:
    decision = Policy().decide(request(first_use=True))

    assert decision == Decision(verdict="allow", reasons=("it needs nothing that was not granted",))


@pytest.mark.promise("pol-1")
@pytest.mark.parametrize("need", [SECRET, HOST, FOUND, FOLDER, UNCONFINED], ids=lambda n: n.kind)
def test_every_need_that_was_not_granted_asks(need: Need) -> None:
    assert Policy().decide(request(needs=(need,))).verdict == "ask"
    assert Policy().decide(request(granted=(need,))).verdict == "allow"


def test_an_ungranted_need_names_itself_and_the_command_that_grants_it() -> None:
    decision = Policy().decide(request(needs=(SECRET, HOST, FOLDER)))

    assert decision == Decision(
        verdict="ask",
        reasons=(
            "it needs the secret API_KEY (asked in metadata), which was not granted",
            "it needs to reach api.example.com, which was not granted",
            "it needs to read /srv/data, which was not granted",
        ),
        hints=("skillpouch trust web --secret API_KEY --host api.example.com --read /srv/data",),
    )


def test_what_trusting_would_give_is_said() -> None:
    decision = Policy().decide(request(needs=(SECRET, HOST)))

    assert decision.hints == (
        "skillpouch trust web --secret API_KEY --host api.example.com",
        "Policy.trusting()",
    )


def test_a_command_in_a_hint_is_quoted_for_a_shell() -> None:
    need = Need(kind="write", value="/srv/my data; rm -rf x")

    (hint,) = Policy().decide(request("a b.c", needs=(need,))).hints

    assert hint == "skillpouch trust 'a b' --write '/srv/my data; rm -rf x'"


def test_packages_are_granted_by_name() -> None:
    need = Need(kind="packages", value="pandas", declared=False)

    decision = Policy().decide(request(needs=(need,)))

    assert decision.reasons == ("it needs the package pandas, which was not granted",)
    assert decision.hints == ("skillpouch trust web --package pandas",)


@pytest.mark.promise("pol-1")
def test_running_unconfined_asks_unless_it_was_granted() -> None:
    asked = Policy().decide(request(confined=False))

    assert asked.verdict == "ask"
    assert asked.hints == ("skillpouch trust web --unconfined",)
    assert Policy().decide(request(confined=False, needs=(UNCONFINED,))) == asked
    assert Policy().decide(request(confined=False, granted=(UNCONFINED,))).verdict == "allow"


@pytest.mark.promise("pol-1")
def test_a_destructive_tool_asks_each_time() -> None:
    decision = Policy().decide(request("disk.wipe", effects=("read", "destructive")))

    assert decision == Decision(
        verdict="ask",
        reasons=("it can destroy what cannot be restored",),
        hints=("Policy(rules=[Rule(verdict='allow', tools=['disk.wipe'])])",),
    )


def test_network_without_a_host_asks() -> None:
    decision = Policy().decide(request(effects=("network",)))

    assert decision.verdict == "ask"
    assert decision.hints == (
        "skillpouch trust web --host HOST",
        "Policy(rules=[Rule(verdict='allow', tools=['web.fetch'])])",
    )
    assert Policy().decide(request(effects=("network",), granted=(HOST,))).verdict == "allow"


def test_trusting_gives_what_is_declared_and_nothing_else() -> None:
    policy = Policy.trusting()

    declared = policy.decide(request(needs=(SECRET, HOST), effects=("network",)))

    assert declared == Decision(verdict="allow", reasons=("its skill declares what it needs",))
    for need in (FOUND, FOLDER, UNCONFINED):
        assert policy.decide(request(needs=(need,))).verdict == "ask"
    assert policy.decide(request(effects=("destructive",))).verdict == "ask"
    assert policy.decide(request(confined=False)).verdict == "ask"


@pytest.mark.promise("http-1")
@pytest.mark.parametrize(
    "host",
    [
        *("169.254.169.254", "127.0.0.1:8080", "10.1.2.3", "[::1]", "[fd00:ec2::254]"),
        *("[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]", "localhost", "git.internal"),
        *("metadata.google.internal", "nas", "no host"),
    ],
)
def test_trusting_gives_no_host_inside_because_it_is_declared(host: str) -> None:
    inside = Need(kind="host", value=host)

    assert Policy.trusting().decide(request(needs=(inside,))).verdict == "ask"
    for outside in ("*", "*.example.com", "93.184.216.34", "example.com:8443"):
        need = Need(kind="host", value=outside)
        assert Policy.trusting().decide(request(needs=(need,))).verdict == "allow"


@pytest.mark.promise("pol-2")
def test_strict_asks_for_the_first_use_of_a_digest_whatever_is_allowed() -> None:
    policy = Policy(mode="strict", rules=[allow("*")])

    decision = policy.decide(request(first_use=True))

    assert decision == Decision(
        verdict="ask",
        reasons=("no call of this version of the skill was approved yet",),
        hints=("skillpouch trust web",),
    )
    assert policy.decide(request()).verdict == "allow"
    assert Policy.strict().decide(request(first_use=True)) == decision


@pytest.mark.promise("pol-3")
def test_deny_beats_ask_beats_allow_whatever_the_order() -> None:
    rules = [
        allow("web.*", name="mine"),
        Rule(verdict="ask", tools=["web.*"], name="hm", reason="think first"),
        Rule(verdict="deny", tools=["web.fetch"], name="never", origin="policy.toml"),
    ]

    for ordered in (rules, rules[::-1]):
        assert Policy(rules=ordered).decide(request()) == Decision(
            verdict="deny",
            reasons=("rule 'never' denies it",),
            hints=("change the rule 'never' in policy.toml",),
        )
        assert Policy(rules=ordered).decide(request("web.post")) == Decision(
            verdict="ask",
            reasons=("rule 'hm' asks about it: think first",),
            hints=("change the rule 'hm' in Policy(rules=…)",),
        )


def test_an_allow_rule_settles_effects() -> None:
    policy = Policy(rules=[allow("disk.*")])

    decision = policy.decide(request("disk.wipe", effects=("destructive", "network")))

    assert decision == Decision(verdict="allow", reasons=("rule 'allow disk.*' allows it",))


@pytest.mark.promise("pol-4")
def test_an_allow_rule_gives_only_the_needs_it_names() -> None:
    broad = Policy(rules=[allow("*")])
    exact = Policy(rules=[allow("web.*", needs=["secret:API_*", "host"])])

    assert broad.decide(request(needs=(SECRET,))).verdict == "ask"
    assert broad.decide(request(confined=False)).verdict == "ask"
    assert exact.decide(request(needs=(SECRET, HOST))).verdict == "allow"
    assert exact.decide(request(needs=(SECRET, FOLDER))).verdict == "ask"


@pytest.mark.promise("pol-4")
def test_an_allow_rule_about_needs_says_nothing_about_effects() -> None:
    needs = allow("*", needs=["host"])
    both = allow("*", needs=["host"], effects=["destructive"])
    wipe = request(effects=("destructive",), needs=(HOST,))

    assert Policy(rules=[needs]).decide(wipe).verdict == "ask"
    assert Policy(rules=[both]).decide(wipe).verdict == "allow"


def test_running_unconfined_is_allowed_by_a_rule_that_says_so() -> None:
    policy = Policy(rules=[allow("web.*", needs=["unconfined"])])

    assert policy.decide(request(confined=False)).verdict == "allow"


@pytest.mark.promise("pol-4")
def test_a_rule_that_allows_effects_allows_no_other() -> None:
    policy = Policy(rules=[allow(effects=["read", "destructive"])])

    assert policy.decide(request(effects=("destructive",))).verdict == "allow"
    assert policy.decide(request(effects=("destructive", "write"))).verdict == "ask"


def test_a_rule_that_refuses_minds_any_effect() -> None:
    policy = Policy(rules=[Rule(verdict="deny", effects=["network", "destructive"])])

    assert policy.decide(request(effects=("read", "network"))).verdict == "deny"
    assert policy.decide(request()).verdict == "allow"


def test_rules_that_refuse_mind_needs_that_were_granted_too() -> None:
    policy = Policy(
        rules=[
            Rule(verdict="deny", needs=["secret:AWS_*", "host:*.internal"]),
            Rule(verdict="ask", needs=["unconfined"]),
        ]
    )

    internal = Need(kind="host", value="db.internal:5432")

    assert policy.decide(request(granted=(FOUND,))).verdict == "deny"
    assert policy.decide(request(needs=(internal,))).verdict == "deny"
    assert policy.decide(request(granted=(HOST,))).verdict == "allow"
    assert policy.decide(request(confined=False, granted=(UNCONFINED,))).verdict == "ask"


def test_rules_are_about_skills_too() -> None:
    policy = Policy(rules=[Rule(verdict="deny", skills=["web*"], tools=["*.fetch"])])
    by_skill = Policy(rules=[Rule(verdict="deny", skills=["web*"], tools=["*"])])

    assert policy.decide(request("web-two.fetch")).verdict == "deny"
    assert policy.decide(request("web-two.post")).verdict == "allow"
    assert policy.decide(request("other.fetch")).verdict == "allow"
    assert by_skill.decide(request("web-two.post")).verdict == "deny"
    assert by_skill.decide(request("other.post")).verdict == "allow"


def test_the_reasons_come_in_the_order_of_the_rules() -> None:
    conditions = [Condition(argument="force", test=Equals(True))]
    policy = Policy(
        rules=[
            Rule(verdict="deny", name="1", tools=["*.push"]),
            Rule(verdict="deny", name="2"),
            Rule(verdict="deny", name="3", when=conditions),
            Rule(verdict="deny", name="4", skills=["git"]),
            Rule(verdict="deny", name="5", needs=["host"]),
            Rule(verdict="deny", name="6", tools=["git.push", "git.*"]),
        ]
    )

    decision = policy.decide(request("git.push", needs=(HOST,), arguments={"force": True}))

    assert decision.reasons == tuple(f"rule '{n}' denies it" for n in range(1, 7))


def test_more_tools_than_are_remembered_get_the_same_answers() -> None:
    policy = Policy(rules=[Rule(verdict="deny", tools=["a1*.run"])])

    verdicts = {n: policy.decide(request(f"a{n}.run")).verdict for n in range(5000)}

    assert verdicts == {n: "deny" if str(n).startswith("1") else "allow" for n in range(5000)}


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"mode": "brave"}, "mode is 'brave': there are trusting, careful, strict"),
        ({"allowed_tools": "no"}, "allowed_tools is 'no': there are enforce, advice"),
        ({"require": ["moat"]}, "require is 'moat': there are fs, net, "),
    ],
)
def test_a_policy_that_says_nothing_known_is_refused(facts: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Policy(**facts)  # type: ignore[arg-type] # that is the test


def test_the_package_gives_its_names_when_they_are_asked_for() -> None:
    for name in skillpouch.policy.__all__:
        assert getattr(skillpouch.policy, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Law'"):
        _ = skillpouch.policy.Law
