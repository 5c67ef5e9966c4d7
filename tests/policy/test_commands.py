"""Rules about shell commands: a permission is for one command, a refusal minds them all."""

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillpouch.policy import CommandTest, Condition, Policy, Request, Rule
from skillpouch.policy.command_programs import CommandWord
from skillpouch.policy.command_words import read_command
from skillpouch.policy.loading import parse_user_policy

CARGO = CommandTest("cargo *")
REMOVE = CommandTest("rm *")


@pytest.mark.parametrize(
    "text",
    ["cargo", "cargo build", "cargo build --release", "cargo 'a b'", r"cargo a\ b", 'cargo "x"'],
)
def test_a_permission_is_for_its_program_with_any_words(text: str) -> None:
    assert CARGO.holds(text, cautious=False)


@pytest.mark.promise("pol-11")
@pytest.mark.parametrize(
    "text",
    [
        *("cargoship", "cargo; rm -rf x", "cargo && rm x", "cargo | sh", "cargo & rm x"),
        *("cargo $(rm x)", "cargo `rm x`", 'cargo "$(rm x)"', "cargo > /etc/x", "cargo < x"),
        *("cargo\nrm x", "./cargo x", "/tmp/cargo x", "X=1 cargo x", "PATH=. cargo", "cargo *"),
        *("cargo ~/x", "cargo {a,b}", "cargo $X", "cargo 'x", 'cargo "x', "cargo x\\", ""),
        *("(cargo x)", "sudo cargo x", "cargo !!", "cargo # x", "cargo " + "x" * 5000),
    ],
)
def test_a_permission_for_one_program_is_none_for_another(text: str) -> None:
    assert not CARGO.holds(text, cautious=False)


@pytest.mark.promise("pol-11")
@pytest.mark.parametrize(
    "text",
    [
        *("rm x", "rm -rf x", "true; rm x", "true && rm x", "true | rm x", "true & rm x"),
        *("(rm x)", "{ rm x; }", "echo $(rm x)", "echo `rm x`", 'echo "$(rm x)"', "true\nrm x"),
        *("/bin/rm x", r"\rm x", "'rm' x", 'r"m" x', "X=1 rm x", "sudo rm x", "env A=b rm x"),
        *("sudo -u root rm x", "timeout 5 rm x", "xargs rm <f", "find . -exec rm {} +"),
        *("sh -c 'rm x'", 'bash -c "true; rm x"', "eval 'rm x'", "nohup sh -c 'sudo rm x' &"),
        *("if true; then rm x; fi", "while rm x; do :; done", "! rm x", "$CMD x", "r* x"),
        *(
            "X=rm ls",
            "$(git push)"[:5] + "ls) x",
            "{git,push} x",
            "flock . r? x",
            "a=b; $a",
            "x/r{m,}",
        ),
        *(
            "xargs -I{} {} x",
            "printf -v $a y",
            "[ -v $a ]",
            "unset $a",
            "env -- rm x",
            "find -exec rm",
        ),
        *(
            "timeout -k $a 5 ls",
            "timeout $a rm x",
            "xargs -I{} ./{}",
            "let $a",
            "read *",
            "sudo -X ls rm",
        ),
        *("echo 'x", "true " + "x" * 5000, "echo > f; rm x", 'sh -c "echo \'"', "sh <<< 'rm x'"),
    ],
)
def test_a_refusal_minds_every_command_and_what_cannot_be_told(text: str) -> None:
    assert REMOVE.holds(text, cautious=True)


@pytest.mark.parametrize(
    "text",
    [
        "ls",
        "echo rm x",
        "grep rm f",
        "cargo rm",
        "rmdir x",
        "firm x",
        "echo 'rm x'",
        "find . -exec",
        "printf '%s' \"$a\"",
        '[ -n "$a" ]',
        "timeout 5 ls",
        "env -- ls",
        "ls; pwd",
    ],
)
def test_a_refusal_lets_other_commands_pass(text: str) -> None:
    assert not REMOVE.holds(text, cautious=True)


def test_a_refusal_minds_words_with_others_in_between() -> None:
    force = CommandTest("git push --force *")

    assert force.holds("git -C x push origin --force", cautious=True)
    assert force.holds("git push $FLAGS", cautious=True)
    assert not force.holds("git push origin", cautious=True)
    assert not force.holds("git -C x push --force", cautious=False)


def test_without_a_star_at_the_end_the_words_are_all() -> None:
    status = CommandTest("git status")

    assert status.holds("git status", cautious=False)
    assert not status.holds("git status --short", cautious=False)
    assert not status.holds("git", cautious=False)


@pytest.mark.parametrize("pattern", ["", "  ", "*"])
def test_a_pattern_names_a_program(pattern: str) -> None:
    with pytest.raises(ValueError, match="names no program"):
        CommandTest(pattern)


@pytest.mark.parametrize("value", [None, 3, ["rm x"], "a\ud800"])
def test_what_is_no_text_is_in_doubt(value: object) -> None:
    expected = {None: False, 3: False}.get(value if isinstance(value, int) else None, False)
    if isinstance(value, list | str):
        assert REMOVE.holds(value, cautious=True)
    assert REMOVE.holds(value, cautious=False) is expected


@pytest.mark.promise("pol-7")
@pytest.mark.parametrize(
    "piece",
    [
        *(
            "sudo ",
            "a ",
            "a= ",
            "'",
            '"',
            "sudo '",
            "$(",
            "`",
            "\\`",
            "((",
            "$((",
            "{",
            "[",
            "${a:-",
        ),
        *("find -exec ", "eval ", "sh -c '", "<<a ", "<<a\n", "a=(", "f() { ", "case a in ", "\\"),
        *("xargs ", "env -S '", "$'", "<(", "-a", "-", "*", "if ", "time ", "git -C ", "a\n", ")"),
    ],
)
def test_no_command_makes_a_call_wait(piece: str) -> None:
    text = (piece * 4096)[:4096]

    # Whatever is answered, it is answered: no text is read more often than it is long.
    for pattern in ("a* b* c* *", "rm *", "a *"):
        for cautious in (True, False):
            assert CommandTest(pattern).holds(text, cautious=cautious) in (True, False)
    assert CommandTest("a *").holds(f"{'a ' * 2000}; rm x", cautious=True)


@pytest.mark.parametrize(
    "text", ["rm -fr x", "rm -r -f x", "rm x -rf", "rm -vfr -- x", "rm $FLAGS x"]
)
def test_letters_of_options_are_minded_in_any_order(text: str) -> None:
    assert CommandTest("rm -rf *").holds(text, cautious=True)
    assert not CommandTest("rm -rf *").holds("rm -r x", cautious=True)


_SOME = st.text(alphabet="rmx '\"\\;&|$(){}`*\n<>=#/", max_size=14)


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(_SOME)
def test_what_is_permitted_is_one_command_of_these_words_to_bash(text: str) -> None:
    whole = f"rm {text}"
    if not REMOVE.holds(whole, cautious=False):
        return

    # Only what was found to be one plain command gets here, and there is nothing to find.
    script = f"rm() {{ printf '<%s>' \"$@\"; }}\n{whole}"
    ran = subprocess.run(
        ["/bin/bash", "-c", script], capture_output=True, env={"PATH": ""}, check=True
    )

    [command] = read_command(whole).commands
    words = command.words[1:] or [CommandWord("")]
    assert ran.stdout.decode() == "".join(f"<{word.text}>" for word in words)


@settings(deadline=None, max_examples=500)
@given(_SOME, _SOME)
def test_what_is_permitted_is_also_what_a_refusal_would_mind(before: str, after: str) -> None:
    text = f"{before}rm{after}"
    if REMOVE.holds(text, cautious=False):
        assert REMOVE.holds(text, cautious=True)


def test_a_policy_file_has_it_and_the_spine_obeys() -> None:
    policy = parse_user_policy(
        b'[[rules]]\nverdict = "deny"\ntools = ["bash"]\n'
        b'when = [{argument = "command", command = "rm *"}]\n',
        "p.toml",
    )
    rule = Rule(
        verdict="deny",
        tools=["bash"],
        when=[Condition(argument="command", test=CommandTest("rm *"))],
    )

    assert [each.when for each in policy.rules] == [rule.when]
    for text, verdict in (("ls", "allow"), ("sudo rm x", "deny")):
        request = Request(
            tool="bash", skill="", confined=True, first_use=False, arguments={"command": text}
        )
        assert Policy(rules=[rule]).decide(request).verdict == verdict
