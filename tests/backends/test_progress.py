"""Progress that scripts report, in every language and convention, warm and cold."""

import asyncio
import json
from pathlib import Path

import pytest

from skillpouch import SkillManager
from skillpouch.results import Progress
from tests.conftest import WriteSkill

pytestmark = pytest.mark.slow

PYTHON = """
import json, os

def report(**said):
    with open(os.environ["SKILLPOUCH_PROGRESS"], "a") as file:
        print(json.dumps(said), file=file)
"""
SCRIPTS = {
    "scripts/shell.sh": """
echo '{"done": 1, "total": 2, "message": "shell"}' >> "$SKILLPOUCH_PROGRESS"
echo "$SKILLPOUCH_PROGRESS"
""",
    "scripts/plain.py": f"""{PYTHON}
if __name__ == "__main__":
    report(done=1, total=2, message="plain")
    print(os.environ["SKILLPOUCH_PROGRESS"])
""",
    "scripts/handled.py": f"""{PYTHON}
def handler(args):
    report(done=1, total=2, message="handled")
    return os.environ["SKILLPOUCH_PROGRESS"]
""",
    "scripts/nested.py": """
import os, subprocess

if __name__ == "__main__":
    line = '{"done": 1, "total": 2, "message": "nested"}'
    words = f"echo '{line}' >> $SKILLPOUCH_PROGRESS"
    subprocess.run(["bash", "-c", words], check=True)
    print(os.environ["SKILLPOUCH_PROGRESS"])
""",
    "scripts/node.mjs": """
import { appendFileSync } from "node:fs";
export default function handler() {
  const path = process.env.SKILLPOUCH_PROGRESS;
  appendFileSync(path, JSON.stringify({ done: 1, total: 2, message: "node" }) + "\\n");
  return path;
}
""",
    "scripts/perl.pl": """
open(my $file, ">>", $ENV{SKILLPOUCH_PROGRESS}) or die $!;
print $file '{"done": 1, "total": 2, "message": "perl"}';
print $ENV{SKILLPOUCH_PROGRESS}, "\\n";
""",
    "tools.json": json.dumps(
        [
            {
                "name": "inline",
                "description": "d",
                "backend": {
                    "type": "script",
                    "interpreter": "bash",
                    "script": 'echo \'{"done": 1, "total": 2, "message": "inline"}\' '
                    '>> "$SKILLPOUCH_PROGRESS"; echo "$SKILLPOUCH_PROGRESS"',
                },
            }
        ]
    ),
}
NAMES = ("shell", "plain", "handled", "nested", "node", "perl", "inline")


@pytest.fixture
def manager(write_skill: WriteSkill, tmp_path: Path) -> SkillManager:
    (tmp_path / "workspace").mkdir()
    root = write_skill(files=SCRIPTS).parent
    return SkillManager(root, workspace=tmp_path / "workspace", cache=False)


@pytest.mark.parametrize("name", NAMES)
def test_a_script_reports_its_progress(name: str, manager: SkillManager) -> None:
    heard: list[Progress] = []

    results = [manager.call(f"demo.{name}", on_step=heard.append) for _ in range(3)]

    assert [result.outcome for result in results] == ["ok"] * 3, results[0].content
    assert heard == [Progress(1, 2, name)] * 3
    paths = [Path(result.content) for result in results]
    assert len(set(paths)) == 3
    assert not any(path.exists() for path in paths)


@pytest.mark.parametrize("name", NAMES)
def test_a_report_that_nobody_hears_goes_nowhere(name: str, manager: SkillManager) -> None:
    assert manager.call(f"demo.{name}").content == "/dev/null"


def test_without_a_sandbox_a_script_reports_too(write_skill: WriteSkill, tmp_path: Path) -> None:
    write_skill(files=SCRIPTS)
    heard: list[Progress] = []
    bare = SkillManager(tmp_path / "skills", sandbox="off", workspace=tmp_path, cache=False)

    result = bare.call("demo.shell", on_step=heard.append)

    assert (result.outcome, heard) == ("ok", [Progress(1, 2, "shell")])


def test_people_get_reports_as_lines(write_skill: WriteSkill, tmp_path: Path) -> None:
    root = write_skill(files=SCRIPTS).parent
    lines: list[str] = []
    watched = SkillManager(root, on_progress=lines.append, workspace=tmp_path, cache=False)

    watched.call("demo.shell")

    assert lines == ["demo.shell: 1 of 2: shell"]


async def test_reports_come_while_the_call_runs_on_the_loop_of_its_caller(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    (tmp_path / "workspace").mkdir()
    script = """
echo '{"done": 1, "total": 2}' >> "$SKILLPOUCH_PROGRESS"
until [ -e go ]; do sleep 0.02; done
echo '{"done": 2}' >> "$SKILLPOUCH_PROGRESS"
"""
    root = write_skill(files={"scripts/x.sh": script}).parent
    workspace = tmp_path / "workspace"
    manager = SkillManager(root, workspace=workspace, cache=False, writes="direct")
    heard: list[tuple[Progress, bool]] = []
    loop = asyncio.get_running_loop()

    def step(progress: Progress) -> None:
        heard.append((progress, asyncio.get_running_loop() is loop))
        (workspace / "go").touch()

    result = await manager.acall("demo.x", on_step=step)

    assert result.outcome == "ok"
    assert heard == [(Progress(1, 2), True), (Progress(2, 2), True)]


@pytest.mark.promise("sec-2")
def test_a_secret_is_redacted_in_a_report(
    write_skill: WriteSkill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEMO_KEY", "hunter2-hunter2")
    script = """
echo '{"done": 1, "message": "key '$DEMO_KEY'"}' >> "$SKILLPOUCH_PROGRESS"
"""
    front = "name: demo\ndescription: d\nmetadata:\n  skillpouch:\n    secrets: [DEMO_KEY]\n"
    root = write_skill(front=front, files={"scripts/x.sh": script}).parent
    heard: list[Progress] = []
    manager = SkillManager(root, workspace=tmp_path, cache=False, approver=lambda _: True)

    manager.call("demo.x", on_step=heard.append)

    assert heard == [Progress(1, None, "key [redacted DEMO_KEY]")]
