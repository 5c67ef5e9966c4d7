"""Skill Tools §6 (restrictions, secrets) and §11: what a handler sees and what it cannot reach."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from skillpouch import SkillManager
from skillpouch.errors import CallDeniedError

pytestmark = pytest.mark.slow

WriteSkill = Callable[..., Path]

PYTHON = """def handler(args):
    text = args.get("text", "")
    words = text.split()
    return {"count": len(words)}
"""

# §6, "Secrets and Configuration", to the letter.
CONFIGURATION = """## Configuration

Set the following environment variable before using this skill:

- `OPENAI_API_KEY` — Your OpenAI API key
"""
READ_KEY = {
    "key.js": "export default async () => process.env.OPENAI_API_KEY ?? null;\n",
    "key.py": 'import os\n\ndef handler(args):\n    return os.environ.get("OPENAI_API_KEY")\n',
    "key.sh": "#!/bin/bash\nif [ -v OPENAI_API_KEY ]; then echo '\"set\"'; else echo null; fi\n",
}


def manager_over(write_skill: WriteSkill, scripts: Mapping[str, str]) -> SkillManager:
    """Declare each script in tools.json, named after its file."""
    declared = [
        {
            "name": Path(name).stem,
            "description": "Does its work",
            "script": f"scripts/{name}",
        }
        for name in scripts
    ]
    files = {f"scripts/{name}": source for name, source in scripts.items()}
    files["tools.json"] = json.dumps(declared)
    home = write_skill("my-skill", body=CONFIGURATION, files=files)
    workspace = home.parent.parent / "work"
    workspace.mkdir()
    manager = SkillManager(home.parent, workspace=workspace)
    manager.discover()
    return manager


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("count.js", "let n = 0;\nexport default async () => { n += 1; return n; };\n"),
        (
            "count.py",
            "calls = []\n\ndef handler(args):\n    calls.append(1)\n    return len(calls)\n",
        ),
    ],
    ids=["javascript", "python"],
)
def test_each_invocation_is_independent(write_skill: WriteSkill, name: str, source: str) -> None:
    manager = manager_over(write_skill, {name: source})

    assert [manager.call("count").structured for _ in range(3)] == [1, 1, 1]


# "The runtime or deployment environment is responsible for providing these variables" cannot mean
# all of the host's: the environment is made from an allow-list (Skillpouch), and a variable that
# a skill documents is given by a grant (§5), not because it happens to be set.
@pytest.mark.parametrize("name", ["key.js", "key.py"])
def test_a_handler_that_reads_a_documented_secret_is_refused_with_the_command_that_grants_it(
    write_skill: WriteSkill, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-real-key")
    manager = manager_over(write_skill, {name: READ_KEY[name]})

    with pytest.raises(CallDeniedError, match="OPENAI_API_KEY") as denied:
        manager.call("key")

    assert "skillpouch trust my-skill --secret OPENAI_API_KEY" in denied.value.hint


# Whether a variable is there may be asked without reading it: such a script can do without.
def test_a_secret_of_the_host_does_not_reach_a_script_that_was_not_granted_it(
    write_skill: WriteSkill, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-real-key")
    manager = manager_over(write_skill, {"key.sh": READ_KEY["key.sh"]})

    result = manager.call("key")

    assert (result.outcome, result.content) == ("ok", "null")


def test_no_secret_of_the_host_is_anywhere_in_the_environment_of_a_handler(
    write_skill: WriteSkill, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-real-key")
    monkeypatch.setenv("UNHEARD_OF", "not-a-real-key")
    manager = manager_over(
        write_skill,
        {
            "look.py": (
                "import os\n\ndef handler(args):\n"
                "    seen = dict(os.environ)\n"
                '    seen["initial"] = open("/proc/self/environ").read()\n'
                "    return seen\n"
            )
        },
    )

    result = manager.call("look")

    assert result.outcome == "ok"
    assert "not-a-real-key" not in json.dumps(result.structured)
    assert result.structured["SKILL_NAME"] == "my-skill"


def test_a_handler_works_on_files_in_the_work_dir(write_skill: WriteSkill, tmp_path: Path) -> None:
    source = """import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

export default async function handler({ __workDir: workDir }) {
  const text = await readFile(join(workDir, "in.txt"), "utf8");
  await writeFile(join(workDir, "out.txt"), text.toUpperCase());
  return { wrote: "out.txt" };
}
"""
    manager = manager_over(write_skill, {"shout.js": source})
    (tmp_path / "work" / "in.txt").write_text("hello")

    result = manager.call("shout")

    assert (tmp_path / "work" / "out.txt").read_text() == "HELLO"
    assert ("out.txt", 5) in [(str(file.path), file.size) for file in result.files]


# §11 "Sandboxing" and "Least privilege"; tests/escapes tries harder.
@pytest.mark.parametrize("extension", ["js", "py", "sh"])
def test_a_handler_reaches_no_file_outside_its_work_dir_and_its_skill(
    write_skill: WriteSkill, tmp_path: Path, extension: str
) -> None:
    private, skill_file = tmp_path / "private.txt", tmp_path / "skills" / "my-skill" / "SKILL.md"
    private.write_text("for my eyes only")
    source = {
        "py": f"""from pathlib import Path

def tried(act):
    try:
        act()
    except OSError:
        return "denied"
    return "done"

def handler(args):
    return [
        tried(lambda: Path({str(private)!r}).read_text()),
        tried(lambda: Path({str(skill_file)!r}).write_text("")),
        tried(lambda: Path({str(skill_file)!r}).read_text()),
    ]
""",
        "js": f"""import {{ readFileSync, writeFileSync }} from "node:fs";

function tried(act) {{
  try {{ act(); return "done"; }} catch {{ return "denied"; }}
}}

export default async () => [
  tried(() => readFileSync({str(private)!r})),
  tried(() => writeFileSync({str(skill_file)!r}, "")),
  tried(() => readFileSync({str(skill_file)!r})),
];
""",
        "sh": f"""#!/bin/bash
tried() {{ if "$@" 2>/dev/null; then printf '"done"'; else printf '"denied"'; fi; }}
read_it() {{ cat "$1" >/dev/null; }}
write_it() {{ : > "$1"; }}
echo "[$(tried read_it {private}),\\
$(tried write_it {skill_file}),$(tried read_it {skill_file})]"
""",
    }[extension]
    manager = manager_over(write_skill, {f"reach.{extension}": source})

    result = manager.call("reach")

    assert result.structured == ["denied", "denied", "done"]
    assert skill_file.read_text() != ""


# The file lies below the temporary folder of the host, and a tool has one of its own: what it
# writes there is gone with its call, so the host's file is what tells.
def test_a_handler_changes_no_file_of_the_host_outside_its_work_dir(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    private = tmp_path / "private.txt"
    private.write_text("for my eyes only")
    script = f"#!/bin/bash\necho gone > {private}\nrm -f {private}\necho '\"tried\"'\n"
    manager = manager_over(write_skill, {"reach.sh": script})

    result = manager.call("reach")

    assert result.structured == "tried"
    assert private.read_text() == "for my eyes only"


def test_every_result_says_what_protected_the_host(write_skill: WriteSkill) -> None:
    result = manager_over(write_skill, {"count_words.py": PYTHON}).call("count_words")

    assert {"fs", "net", "tree"} <= set(result.protections)
    assert "none" not in {result.protections[layer] for layer in ("fs", "net", "tree")}
