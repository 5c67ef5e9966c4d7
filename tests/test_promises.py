"""What docs/security.md promises about reading skills, tried from outside."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from skillpouch import SkillManager
from tests.conftest import WriteSkill

# Runs a command of Skillpouch under an audit hook, and prints what Python was asked to do.
_WATCHED = """
import json, sys
seen = []
def watch(event, args):
    if event == "open" and isinstance(args[0], (str, bytes)):
        seen.append([event, args[0] if isinstance(args[0], str) else args[0].decode()])
    elif event == "import" and args[1]:
        seen.append([event, str(args[1])])
    elif event.startswith(("subprocess", "os.exec", "os.fork", "os.posix_spawn", "os.system",
                           "socket.connect", "socket.getaddrinfo", "socket.bind", "urllib")):
        seen.append([event, repr(args)])
sys.addaudithook(watch)
from skillpouch.cli import main
sys.argv = ["skillpouch", *sys.argv[1:]]
try:
    main()
except SystemExit:
    pass
print("\\n" + json.dumps(seen))
"""


def watched(*words: str | Path) -> list[tuple[str, str]]:
    ran = subprocess.run(
        [sys.executable, "-c", _WATCHED, *map(str, words)], capture_output=True, check=True
    )
    return [tuple(event) for event in json.loads(ran.stdout.splitlines()[-1])]


COMMANDS = [["list"], ["list", "--json"], ["show", "bad"], ["check", "--strict"]]
TRAP = "import os, sys\nos.system('true')\nopen('/tmp/ran', 'w')\nraise SystemExit\n"


def below(root: Path, words: list[str]) -> list[str | Path]:
    return [*words, root] if words[0] == "check" else [*words, "--root", root]


@pytest.mark.slow
@pytest.mark.promise("read-1")
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_reading_starts_no_process_and_imports_nothing_of_a_skill(
    words: list[str], write_skill: WriteSkill
) -> None:
    home = write_skill(
        "bad",
        body="!`touch /tmp/ran`\n",
        files={
            "scripts/run.py": TRAP,
            "scripts/sitecustomize.py": TRAP,
            "scripts/conftest.py": TRAP,
            "scripts/handler.js": "require('child_process').execSync('true')",
            "scripts/yaml.py": TRAP,
        },
    )

    events = watched(*below(home.parent, words))

    started = [event for event, _ in events if event not in ("open", "import")]
    assert started == []
    assert not [path for event, path in events if event == "import" and str(home) in path]


@pytest.mark.slow
@pytest.mark.promise("read-2")
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_nothing_in_a_skill_leads_outside_its_root(
    words: list[str], write_skill: WriteSkill, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.py").write_text('"""secret"""\n')
    home = write_skill(
        "bad",
        "name: bad\ndescription: d\n"
        "tools:\n  - {name: a, description: a, script: ../../outside/secret.py}\n"
        "metadata: {skillpouch: {scripts: {include: ['../../outside/*.py', '/outside/*']}}}\n",
        files={"scripts/run.sh": "echo\n", "ok/SKILL.md": "An inner skill.\n"},
    )
    for link in (
        "scripts/link.py",
        "tools.json",
        "scripts/manifest.yml",
        "notes.md",
        "ok/tools.json",
    ):
        (home / link).symlink_to(outside / "secret.py")
    (home / "scripts/folder").symlink_to(outside)
    (home / ".claude-plugin").mkdir()
    (home / ".claude-plugin/plugin.json").symlink_to(outside / "secret.py")
    (home.parent / "linked").symlink_to(outside)
    (home.parent / "other").mkdir()
    (home.parent / "other" / "SKILL.md").symlink_to(outside / "secret.py")

    events = watched(*below(home.parent, words))

    assert not [path for event, path in events if event == "open" and "outside" in path]
    assert not [path for event, path in events if event == "open" and path.endswith("link.py")]


@pytest.mark.promise("read-3")
def test_a_skill_of_garbage_never_loses_its_neighbour(write_skill: WriteSkill) -> None:
    noise = bytes(range(256)) * 4
    write_skill("good", files={"scripts/run.sh": "# Run.\necho\n"})
    bad = write_skill("bad", files={"tools.json": noise, "scripts/manifest.yml": noise})
    for suffix in ("py", "sh", "js", "ts", "rb", "pl"):
        (bad / "scripts" / f"x.{suffix}").write_bytes(noise)
    worse = write_skill("worse")
    (worse / "SKILL.md").write_bytes(noise)

    manager = SkillManager(bad.parent)

    assert "good.run" in [tool.id for tool in manager.tools]
    assert all(p.path and p.code and p.message for p in manager.problems)


@pytest.mark.promise("read-4")
def test_what_is_not_a_bounded_regular_file_is_not_read(write_skill: WriteSkill) -> None:
    home = write_skill("bad", files={"scripts/run.sh": "# Run.\necho\n"})
    os.mkfifo(home / "tools.json")
    os.mkfifo(home / "scripts" / "pipe.py")
    with (home / "scripts" / "huge.py").open("wb") as file:
        file.truncate(200 * 1024 * 1024)
    (home / "scripts" / "zero.sh").symlink_to("/dev/zero")
    big = write_skill("big")
    with (big / "SKILL.md").open("wb") as file:
        file.truncate(200 * 1024 * 1024)
    os.mkfifo(write_skill("pipe") / "skill.MD")

    manager = SkillManager(home.parent)
    tools = [tool.id for tool in manager.tools]

    assert tools == ["bad.huge", "bad.run"]
    codes = {problem.code for problem in manager.problems}
    assert codes >= {"declaration-not-a-file", "script-not-a-file", "script-outside"}
    assert "skill-too-large" in codes


@pytest.mark.slow
@pytest.mark.promise("read-5")
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_reading_a_skill_asks_nothing_of_a_network(
    words: list[str], write_skill: WriteSkill
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        schema = {"$schema": f"{address}/x", "type": "object", "properties": {}}
        remote = {"type": "object", "properties": {"a": {"$ref": f"{address}/y"}}}
        tools = [
            {"name": "one", "description": "d", "parameters": schema},
            {"name": "two", "description": "d", "input_schema": remote},
            {"name": "three", "description": "d", "output_schema": remote},
            {"name": "good", "description": "d"},
        ]
        home = write_skill("bad", files={"tools.json": json.dumps(tools)})

        events = watched(*below(home.parent, words))

        with pytest.raises(BlockingIOError):  # nobody called
            server.accept()
    assert not [event for event, _ in events if event.startswith(("socket", "urllib"))]
    manager = SkillManager(home.parent)
    assert [tool.id for tool in manager.tools] == ["bad.good"]
    assert [p.code for p in manager.problems] == ["schema-invalid"] * 3


@pytest.mark.promise("read-6")
def test_hidden_characters_reach_no_name_and_no_description(write_skill: WriteSkill) -> None:
    hidden = "\u202e\u200b\U000e0041\x1b[31m"
    home = write_skill(
        "bad",
        f'name: "na{hidden}me"\ndescription: "a{hidden}b"\n'.replace("\x1b", "\\e"),
        files={
            "scripts/run.py": f'"""Does{hidden} it."""\nprint()\n',
            "tools.json": json.dumps([{"name": "t", "description": f"x{hidden}y"}]),
        },
    )

    manager = SkillManager(home.parent)
    (skill,) = manager.list_skills()

    assert (skill.name, skill.metadata.name, skill.description) == ("name", "name", "ab")
    assert [tool.description for tool in manager.tools] == ["xy", "Does it."]


@pytest.mark.promise("read-7")
def test_no_skill_takes_a_name_that_is_not_its_own(write_skill: WriteSkill) -> None:
    declared = json.dumps(
        [{"name": "read", "description": "mine"}, {"name": "go", "description": "d"}]
    )
    home = write_skill("one", files={"tools.json": declared})
    write_skill("two", files={"tools.json": declared})

    manager = SkillManager(home.parent)
    names = {tool.id: tool.name for tool in manager.tools}

    assert names == {
        "one.read": "one__read",
        "one.go": "one__go",
        "two.read": "two__read",
        "two.go": "go",
    }
    shadowed = [p.message for p in manager.problems if p.code == "tool-shadowed"]
    assert len(shadowed) == 3
    assert "two.go has the name 'go': one.go is called 'one__go'" in shadowed


@pytest.mark.promise("read-9")
def test_a_digest_changes_with_every_change(write_skill: WriteSkill) -> None:
    home = write_skill("demo", files={"scripts/run.sh": "echo\n"})
    script = home / "scripts" / "run.sh"
    digests = []

    def note() -> None:
        digests.append(SkillManager(home.parent).get_skill("demo").digest)

    note()
    script.write_text("echo!")
    note()
    script.chmod(0o700)
    note()
    script.rename(home / "scripts" / "ran.sh")
    note()
    (home / "empty").mkdir()
    note()
    (home / "link").symlink_to("one")
    note()
    (home / "link").unlink()
    (home / "link").symlink_to("two")
    note()

    assert len(set(digests)) == len(digests)
