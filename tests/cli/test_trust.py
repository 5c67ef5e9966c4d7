"""`skillpouch trust`: what is asked is shown, a yes is needed, and no secret is printed."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Ran, Skillpouch
from tests.conftest import WriteSkill
from tests.test_promises import TRAP, watched

pytestmark = pytest.mark.slow

FRONT = (
    "name: demo\ndescription: d\nmetadata:\n  skillpouch:\n    secrets: [API_KEY]\n"
    "    hosts: [api.example.com]\n"
)
FILES = {"scripts/run.sh": "# Run.\necho $OTHER_KEY\n"}
Talk = Callable[..., Ran]


@pytest.fixture(autouse=True)
def no_secrets_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("API_KEY", "OTHER_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    """Run the real command on a terminal, and answer its questions."""

    def run(*words: str, answers: str) -> Ran:
        master, slave = pty.openpty()
        with subprocess.Popen(
            [sys.executable, "-m", "skillpouch", *words],
            cwd=tmp_path,
            stdin=slave,
            stdout=subprocess.PIPE,
            stderr=slave,
        ) as process:
            os.close(slave)
            os.write(master, answers.encode())
            assert process.stdout
            out, said = process.stdout.read().decode(), b""
        try:
            while part := os.read(master, 65536):
                said += part
        except OSError:  # Linux reports the end of a terminal as an error
            pass
        os.close(master)
        return Ran(process.returncode, out, said.decode())

    return run


def granted(skillpouch: Skillpouch) -> dict[str, Any]:
    (grant,) = skillpouch("trust", "--list", "--json").json["grants"]
    return {key: grant[key] for key in ("secrets", "hosts", "read", "write", "unconfined", "state")}


NOTHING = {"secrets": [], "hosts": [], "read": [], "write": [], "unconfined": False}


def test_trust_shows_what_is_asked_and_where(
    skillpouch: Skillpouch, write_skill: WriteSkill
) -> None:
    home = write_skill(front=FRONT, files=FILES)

    ran = skillpouch("trust", "demo")

    assert ran.out == (
        f"demo  {home}\n\n"
        "secret\tAPI_KEY\tnot granted, not set\tSKILL.md:6 (metadata.skillpouch)\n"
        "host\tapi.example.com\tnot granted\tSKILL.md:7 (metadata.skillpouch)\n"
        "secret\tOTHER_KEY\tnot granted, not set, not declared\tscripts/run.sh:2\n"
    )


@pytest.mark.promise("grant-7")
@pytest.mark.parametrize("more", [(), ("--json",), ("--secret", "API_KEY"), ("--unconfined",)])
def test_without_a_terminal_and_without_yes_nothing_is_granted(
    skillpouch: Skillpouch, write_skill: WriteSkill, more: tuple[str, ...]
) -> None:
    write_skill(front=FRONT)

    ran = skillpouch("trust", "demo", *more)

    assert ran.code == 3
    assert "error: nothing was granted: there is no terminal to ask on\n" in ran.err
    assert "--yes` to grant it" in ran.err
    assert skillpouch("trust", "--list", "--json").json == {"grants": [], "unconfined": None}


@pytest.mark.promise("grant-7")
def test_the_command_it_names_is_the_one_that_grants(
    skillpouch: Skillpouch, write_skill: WriteSkill
) -> None:
    import shlex

    home = write_skill(front=FRONT, root="some where")
    said = skillpouch("trust", "demo", "--root", home.parent).err
    command = said.partition("`")[2].partition("`")[0]

    ran = skillpouch(*shlex.split(command)[1:])

    assert ran.code == 0
    expected = NOTHING | {"secrets": ["API_KEY"], "hosts": ["api.example.com"], "state": "valid"}
    assert granted(skillpouch) == expected


def test_yes_grants_what_is_declared_and_nothing_else(
    skillpouch: Skillpouch, write_skill: WriteSkill
) -> None:
    write_skill(front=FRONT, files=FILES)

    ran = skillpouch("trust", "demo", "--yes")

    assert (ran.code, granted(skillpouch)["secrets"]) == (0, ["API_KEY"])
    assert ran.err == (
        "granted to demo: secret API_KEY, host api.example.com\n"
        "not declared, so only granted by name: `skillpouch trust demo --secret OTHER_KEY`\n"
    )


def test_what_is_named_is_granted_and_nothing_else(
    skillpouch: Skillpouch, write_skill: WriteSkill, tmp_path: Path
) -> None:
    write_skill(front=FRONT, files=FILES)

    words = ("--secret", "OTHER_KEY", "--read", "data", "--write", f"{tmp_path}/out")
    ran = skillpouch("trust", "demo", *words, "--unconfined", "--yes")

    assert ran.code == 0
    assert granted(skillpouch) == {
        "secrets": ["OTHER_KEY"],
        "hosts": [],
        "read": [f"{tmp_path}/data"],
        "write": [f"{tmp_path}/out"],
        "unconfined": True,
        "state": "valid",
    }


@pytest.mark.parametrize("words", [("--host", "a b"), ("--secret", "A-B"), ("--write", "/")])
def test_what_cannot_be_granted_is_a_wrong_call(
    skillpouch: Skillpouch, write_skill: WriteSkill, words: tuple[str, ...]
) -> None:
    write_skill()

    ran = skillpouch("trust", "demo", *words, "--yes")

    assert ran.code == 2
    assert ran.err.startswith("error: cannot grant ")


def test_what_a_skill_asks_for_and_never_gets_is_shown_as_that(
    skillpouch: Skillpouch, write_skill: WriteSkill
) -> None:
    asks = "{hosts: ['*.com'], write: [/], read: [/]}"
    write_skill(front=f"name: demo\ndescription: d\nmetadata: {{skillpouch: {asks}}}\n")

    ran = skillpouch("trust", "demo", "--yes")

    assert "host\t*.com\tcannot be granted: '*.com' would cover too much: name the hosts" in ran.out
    assert "write\t/\tcannot be granted: Skillpouch's grants are kept in " in ran.out
    assert "read\t/\tnot granted, YOUR WHOLE HOME" in ran.out
    assert granted(skillpouch) == NOTHING | {"read": ["/"], "state": "valid"}


@pytest.mark.parametrize(
    ("answers", "secrets"),
    [
        ("n\nn\n", None),
        ("\n\n", None),
        ("y\nn\n", ["API_KEY"]),
        ("y\ny\n", ["API_KEY", "OTHER_KEY"]),
    ],
)
def test_on_a_terminal_it_asks_and_no_is_the_default(
    skillpouch: Skillpouch,
    talk: Talk,
    write_skill: WriteSkill,
    answers: str,
    secrets: list[str] | None,
) -> None:
    write_skill(front=FRONT, files=FILES)

    ran = talk("trust", "demo", answers=answers)

    assert ran.code == 0
    assert "Grant what it declares: secret API_KEY, host api.example.com? [y/N]" in ran.err
    assert "Grant what it does not declare: secret OTHER_KEY? [y/N]" in ran.err
    grants = skillpouch("trust", "--list", "--json").json["grants"]
    assert [grant["secrets"] for grant in grants] == ([secrets] if secrets else [])


def test_a_yes_to_a_skill_that_asks_for_nothing_is_kept(
    skillpouch: Skillpouch, talk: Talk, write_skill: WriteSkill
) -> None:
    write_skill()
    looked = skillpouch("trust", "demo")
    declined = talk("trust", "demo", answers="\n")
    before = skillpouch("trust", "--list").out

    said = talk("trust", "demo", answers="y\n")

    assert (looked.code, declined.code, before) == (0, 0, "")
    assert "It asks for nothing. Trust it as it is? [y/N]" in said.err
    assert granted(skillpouch) == NOTHING | {"state": "valid"}
    assert "Trust it" not in talk("trust", "demo", answers="").err


@pytest.mark.parametrize("answer", ["y", "n", "--yes"])
def test_a_skill_that_changed_is_granted_again_after_a_look_at_the_change(
    skillpouch: Skillpouch, talk: Talk, write_skill: WriteSkill, answer: str
) -> None:
    home = write_skill(front=FRONT, files=FILES)
    never = skillpouch("trust", "demo", "--renew", "--yes")
    skillpouch("trust", "demo", "--secret", "API_KEY", "--yes")
    same = skillpouch("trust", "demo", "--renew", "--yes")
    (home / "scripts/run.sh").write_text("# Run.\necho $NEW_KEY\n")
    silent = skillpouch("trust", "demo", "--renew")

    said = (
        skillpouch("trust", "demo", "--renew", "--yes")
        if answer == "--yes"
        else talk("trust", "demo", "--renew", answers=f"{answer}\n")
    )

    assert (never.code, same.code, silent.code, said.code) == (2, 0, 3, 0)
    assert "was never granted anything" in never.err
    assert "did not change" in same.err
    assert "skillpouch trust demo --renew --yes" in silent.err
    assert "changed  scripts/run.sh" in said.out
    assert "newly asks for: host api.example.com, secret NEW_KEY" in said.out
    state = granted(skillpouch)
    assert (state["secrets"], state["state"]) == (
        ["API_KEY"],
        "changed" if answer == "n" else "valid",
    )


def test_what_changed_since_the_grant_is_shown(
    skillpouch: Skillpouch, write_skill: WriteSkill
) -> None:
    home = write_skill(front=FRONT, files=FILES)
    skillpouch("trust", "demo", "--yes")
    (home / "scripts/run.sh").write_text("# Run.\nrm -rf x\n")
    (home / "scripts/run.sh").chmod(0o755)
    (home / "new.txt").write_text("")
    (home / ".git").mkdir()
    for number in range(20):
        (home / ".git" / str(number)).write_text("")

    ran = skillpouch("trust", "demo")
    as_json = skillpouch("trust", "demo", "--json")

    assert ran.code == 3
    assert ran.out.partition("it changed since then, so none of that is granted now:\n")[2] == (
        "  21 changes in .git/\n  added    new.txt\n  changed  scripts/run.sh  mode 644 → 755\n"
    )
    changed = as_json.json["changed"]
    assert {"path": "new.txt", "what": "added", "detail": ""} in changed
    assert len(changed) == 23
    assert (as_json.json["granted"], as_json.code) == (None, 3)
    assert skillpouch("trust", "--list", "--json").json["grants"][0]["state"] == "changed"


def test_json_says_what_is_asked_granted_and_set(
    skillpouch: Skillpouch, write_skill: WriteSkill, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = write_skill(front=FRONT, files={"scripts/a.py": '"""A."""\nimport cv2\nprint()\n'})
    monkeypatch.setenv("API_KEY", "hunter2-hunter2")

    told = skillpouch("trust", "demo", "--yes", "--json").json

    assert {key: told[key] for key in ("skill", "path", "changed", "leads_out")} == {
        "skill": "demo",
        "path": str(home),
        "changed": [],
        "leads_out": [],
    }
    assert told["asks"] == [
        {
            "kind": "secret",
            "value": "API_KEY",
            "declared": True,
            "asked_in": "SKILL.md:6 (metadata.skillpouch)",
            "granted": True,
            "set": True,
        },
        {
            "kind": "host",
            "value": "api.example.com",
            "declared": True,
            "asked_in": "SKILL.md:7 (metadata.skillpouch)",
            "granted": True,
        },
        {
            "kind": "packages",
            "value": "opencv-python",
            "declared": False,
            "asked_in": "scripts/a.py:2 (imports cv2)",
            "granted": False,
        },
    ]
    assert told["granted"]["digest"] == told["digest"]


@pytest.mark.promise("grant-9")
@pytest.mark.parametrize("words", [(), ("--yes",), ("--json",), ("--list",), ("--revoke",)])
def test_no_value_of_a_secret_is_printed_or_kept(
    skillpouch: Skillpouch,
    write_skill: WriteSkill,
    words: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_skill(front=FRONT, files=FILES)
    monkeypatch.setenv("API_KEY", "hunter2-hunter2")
    skillpouch("trust", "demo", "--yes")

    ran = skillpouch("trust", "demo", *words)

    assert "hunter2" not in ran.out + ran.err
    state = Path(os.environ["XDG_STATE_HOME"])
    kept = [path.read_bytes() for path in state.rglob("*") if path.is_file()]
    assert not [data for data in kept if b"hunter2" in data]


@pytest.mark.promise("grant-9")
@pytest.mark.parametrize("words", [["trust", "bad", "--yes"], ["trust", "bad", "--json"]])
def test_looking_at_a_skill_runs_nothing_of_it(words: list[str], write_skill: WriteSkill) -> None:
    home = write_skill(
        "bad",
        "name: bad\ndescription: d\nenv: [API_KEY]\n",
        files={
            "scripts/run.py": f"import helper, yaml\n{TRAP}",
            "scripts/helper.py": TRAP,
            "scripts/yaml.py": TRAP,
            "scripts/x.mjs": "import './y.mjs'; import 'left-pad'\n",
        },
    )

    events = watched(*words, "--root", home.parent)

    started = [event for event, _ in events if event not in ("open", "import")]
    assert started == []
    assert not [path for event, path in events if event == "import" and str(home) in path]


def test_hidden_characters_in_what_is_asked_are_seen(
    skillpouch: Skillpouch, write_skill: WriteSkill
) -> None:
    front = 'name: demo\ndescription: d\nmetadata: {skillpouch: {read: ["/srv/\\e[2Jx\\u202ey"]}}\n'
    home = write_skill(front=front)
    (home / "out\x1b[31m").symlink_to("/etc/hosts")

    ran = skillpouch("trust", "demo")
    named = skillpouch("trust", "demo", "--read", "/srv/\u202ey", "--yes")

    for text in (ran.out, ran.err, named.out, named.err):
        assert not set(text) & set("\x1b\u202e")
    assert "cannot be granted: it holds invisible characters" in ran.out
    assert named.code == 2
    assert r"/srv/\x1b\x5b\x32\x4ax\u202ey" in ran.out
    link = r"out\x1b\x5b\x33\x31\x6d → /etc/hosts"
    assert f"links to a place outside that no digest covers: {link}" in ran.out


def test_revoke_takes_everything_back(skillpouch: Skillpouch, write_skill: WriteSkill) -> None:
    write_skill(front=FRONT)
    skillpouch("trust", "demo", "--yes")

    first, second = (
        skillpouch("trust", "demo", "--revoke"),
        skillpouch("trust", "demo", "--revoke", "--json"),
    )

    assert (first.code, first.err) == (0, "demo has no grants any more\n")
    assert second.json == {"skill": "demo", "revoked": False}
    assert skillpouch("trust", "--list").out == ""


def test_a_skill_that_is_gone_can_be_revoked_by_name_or_folder(
    skillpouch: Skillpouch, write_skill: WriteSkill
) -> None:
    import shutil

    homes = [write_skill(front=FRONT, root=root) for root in ("one", "two")]
    for home in homes:
        skillpouch("trust", "demo", "--yes", "--root", home.parent)
        shutil.rmtree(home)

    both = skillpouch("trust", "demo", "--revoke")
    one = skillpouch("trust", homes[0], "--revoke")
    last = skillpouch("trust", "demo", "--revoke")

    assert both.code == 2
    assert both.err.endswith(f"hint: say which: {homes[0]}, {homes[1]}\n")
    assert (one.code, last.code) == (0, 0)
    assert skillpouch("trust", "--list", "--json").json["grants"] == []
    assert skillpouch("trust", "demo", "--revoke").err.startswith("error: no skill named 'demo'\n")


def test_consent_for_the_machine_needs_a_yes(skillpouch: Skillpouch, talk: Talk) -> None:
    refused = skillpouch("trust", "--unconfined")
    declined = talk("trust", "--unconfined", answers="\n")
    given = talk("trust", "--unconfined", answers="y\n")
    listed = skillpouch("trust", "--list", "--json").json["unconfined"]
    withdrawn = skillpouch("trust", "--unconfined", "--revoke", "--json")

    assert (refused.code, declined.code, given.code) == (3, 0, 0)
    assert "run `skillpouch trust --unconfined --yes` to grant it" in refused.err
    assert "may not run unconfined" in declined.err
    assert "tools may run unconfined where this machine cannot confine" in given.err
    assert set(listed) == {"when", "by", "machine"}
    assert withdrawn.json == {"unconfined": None}


@pytest.mark.parametrize("words", [(), ("--yes",), ("--unconfined", "--secret", "A")])
def test_trust_without_a_skill_says_what_to_name(
    skillpouch: Skillpouch, words: tuple[str, ...]
) -> None:
    ran = skillpouch("trust", *words)

    assert ran.code == 2
    assert "name a skill, or use --list or --unconfined alone" in ran.err


def test_a_damaged_record_is_said_aloud(skillpouch: Skillpouch, write_skill: WriteSkill) -> None:
    write_skill(front=FRONT)
    skillpouch("trust", "demo", "--yes")
    (record,) = (Path(os.environ["XDG_STATE_HOME"]) / "skillpouch/grants").glob("*.json")
    value = json.loads(record.read_text())
    record.write_text(json.dumps(value | {"secrets": 1}))

    ran = skillpouch("trust", "demo")

    assert ran.code == 3
    assert "a damaged grant is ignored: secrets is a int; it was moved to " in ran.err


def test_a_grant_names_commands_only_when_it_is_told_to(
    skillpouch: Skillpouch, write_skill: WriteSkill
) -> None:
    write_skill("demo", FRONT, files=FILES)

    first = skillpouch("trust", "demo", "--host", "api.example.com", "--yes", "--json").json
    second = skillpouch("trust", "demo", "--commands", "--yes", "--json").json
    listed = skillpouch("trust", "--list")

    assert (first["granted"]["commands"], second["granted"]["commands"]) == (False, True)
    assert second["granted"]["hosts"] == ["api.example.com"]
    assert "all of it for commands that an agent writes" in listed.out


def test_a_grant_for_commands_says_whose_files_they_run(
    skillpouch: Skillpouch, write_skill: WriteSkill
) -> None:
    write_skill("demo", files={"scripts/x.py": "print(1)\n"})
    sentence = "commands run a file of the workspace before the skill's file of the same path\n"

    granted = skillpouch("trust", "demo", "--commands", "--yes")
    refused = skillpouch("trust", "demo", "--commands", "--read", "/usr/share")
    other = skillpouch("trust", "demo", "--read", "/usr/share", "--yes")

    assert sentence in granted.err
    assert sentence in refused.err
    assert sentence not in other.err


def test_profiles_are_granted_by_their_options_and_explained(
    skillpouch: Skillpouch, write_skill: WriteSkill
) -> None:
    front = "name: demo\ndescription: d\nmetadata:\n  skillpouch:\n    local-sockets: true\n"
    root = str(write_skill(front=f"{front}    loopback: true\n", files=FILES).parent)

    shown = skillpouch("trust", "demo", "--root", root)
    options = ("--local-sockets", "--memory", "4G", "--device", "gpu")
    granted = skillpouch("trust", "demo", *options, "--root", root, "--yes", "--json")

    assert shown.code == 3
    assert "connect to each other by unix sockets in their own temporary folders" in shown.out
    assert "needs no grant where calls have a network of their own" in shown.out
    assert "--local-sockets --root" in shown.err
    found = granted.json["granted"]
    assert (found["local_sockets"], found["memory"], found["devices"]) == (True, "4GiB", ["gpu"])


def test_time_is_shown_granted_by_its_option_and_refused_if_it_is_none(
    skillpouch: Skillpouch, write_skill: WriteSkill
) -> None:
    front = "name: demo\ndescription: d\nmetadata:\n  skillpouch:\n    timeout_seconds: 5400\n"
    root = str(write_skill(front=front, files=FILES).parent)
    tool = next(iter(skillpouch("list", "--root", root, "--json").json["tools"]))["id"]

    asked = skillpouch("trust", "demo", "--root", root)
    checked = skillpouch("check", root, "--json")
    before = skillpouch("show", tool, "--root", root)
    wrong = [
        skillpouch("trust", "demo", "--time", time, "--root", root, "--yes")
        for time in ("soon", "25h", "0", "-2h")
    ]
    granted = skillpouch("trust", "demo", "--time", "90 min", "--root", root, "--yes", "--json")
    after = skillpouch("show", tool, "--root", root)

    assert asked.code == 3
    assert "SKILL.md:6 (metadata.skillpouch)" in asked.out
    assert f"skillpouch trust demo --time 1h30m --root {root} --yes" in asked.err
    assert "timeout-long" in [problem["code"] for problem in checked.json["problems"]]
    assert "time limit:       1h30m, which has to be granted" in before.out
    assert "no: time 1h30m is not granted" in before.out
    assert [(ran.code, "it is not a time that a call may take" in ran.err) for ran in wrong] == [
        (2, True)
    ] * 4
    assert granted.json["granted"]["time"] == "1h30m"
    assert "time 1h30m is not granted" not in after.out


def test_a_path_that_does_not_exist_is_told_when_it_is_granted(
    skillpouch: Skillpouch, write_skill: WriteSkill, tmp_path: Path
) -> None:
    front = f"name: demo\ndescription: d\nmetadata: {{skillpouch: {{read: [{tmp_path}/later]}}}}\n"
    write_skill(front=front, files=FILES)

    ran = skillpouch("trust", "demo", "--root", "skills", "--yes")

    assert f"read\t{tmp_path}/later\tnot granted, does not exist" in ran.out
    assert f"{tmp_path}/later does not exist: calls are given it as soon as it does" in ran.err


def test_the_own_folder_of_a_skill_is_granted_by_entries_and_says_what_it_opens(
    skillpouch: Skillpouch, write_skill: WriteSkill
) -> None:
    home = write_skill(files=FILES)
    words = ("trust", "demo", "--root", "skills", "--yes")

    refused = skillpouch(*words, "--write", f"{home}/data")
    planted = skillpouch(*words, "--own-folder", "node_modules")
    granted = skillpouch(*words, "--own-folder", "data", "--own-folder", ".venv")
    listed = skillpouch("trust", "--list", "--json").json

    assert (refused.code, planted.code, granted.code) == (2, 2, 0)
    assert "its calls can write beside it: --own-folder data" in refused.err
    assert "interpreters look for code by that name" in planted.err
    assert "own-folder: its calls write beside the files of the skill" in granted.err
    assert granted.err.endswith("granted to demo: own folder data, own folder .venv\n")
    assert listed["grants"][0]["own_folder"] == [".venv", "data"]


def test_what_a_skill_keeps_in_its_own_folder_is_listed_and_pruned_with_its_grant(
    skillpouch: Skillpouch, write_skill: WriteSkill
) -> None:
    script = (
        '# Keep it.\nmkdir -p "$SKILL_BASE_DIR/data" && echo kept > "$SKILL_BASE_DIR/data/file"\n'
    )
    home = write_skill(files={"scripts/keep.sh": script})
    skillpouch("trust", "demo", "--root", "skills", "--own-folder", "data", "--yes")
    called = skillpouch("call", "demo.keep", "--root", "skills")

    kept = skillpouch("environments", "prune", "--json").json
    (home / "more").touch()
    planned = skillpouch("environments", "prune", "--dry-run").err
    pruned = skillpouch("environments", "prune", "--json").json

    assert called.code == 0, called.err
    assert [each["keeps"] for each in kept["own_folders"]] == [["data"]]
    assert kept["removed_own_folders"] == []
    assert planned.startswith("1 would be removed, would free ")
    assert [each["skill"] for each in pruned["removed_own_folders"]] == ["demo"]
    assert pruned["own_folders"] == []
