"""Paths that turn into links between the check and the use."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from skillpouch import SkillManager
from skillpouch.builtins.authoring.author import SavedSkills
from skillpouch.discovery.digest import manifest_of
from skillpouch.discovery.skill_copies import SkillCopies, UncopyableError
from skillpouch.errors import SkillpouchError, ToolFaultError
from skillpouch.policy.approval import Question
from skillpouch.results import ChangedFile
from skillpouch.servers.mcp.results import Links, Scheme
from skillpouch.untrusted_files import CannotReadError, read_inside
from tests.conftest import WriteSkill
from tests.malicious.conftest import Grant, MakeManager
from tests.swaps import ROUNDS, swapped

# Long enough for SKILLPOUCH_RACE_ROUNDS=5000.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

READ = "print(open('inputs/key').read())\n"
WRITE = "open('inputs/marker', 'w').write('mine')\n"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "key").write_text("hunter2hunter2")
    return folder


def said_in(manager: SkillManager, tool: str) -> tuple[str, str]:
    """Return what a call gave; that it was refused is as good as any answer."""
    try:
        result = manager.call(tool)
    except SkillpouchError as error:
        return "refused", str(error)
    return result.outcome, result.content


@pytest.mark.promise("call-6")
@pytest.mark.parametrize("kind", ["read", "write"])
def test_a_folder_somebody_said_yes_to_never_becomes_another_one(
    kind: str, manager_of: MakeManager, workspace: Path, outside: Path
) -> None:
    inputs = workspace / "inputs"
    inputs.mkdir()
    (inputs / "key").write_text("harmless")
    (workspace / "link").symlink_to(outside)

    def only_inside(question: Question) -> bool:
        return all(Path(need.value).is_relative_to(workspace) for need in question.needs)

    front = f"metadata: {{skillpouch: {{{kind}: [{inputs}]}}}}\n"
    files = {"scripts/use.py": READ if kind == "read" else WRITE}
    manager = manager_of(files, front, approver=only_inside)

    with swapped(inputs, workspace / "link"):
        said = [said_in(manager, "bad.use") for _ in range(ROUNDS)]
    outcome, _ = said_in(manager, "bad.use")

    assert not [each for each in said if "hunter2" in each[1]]
    assert {path.name for path in outside.iterdir()} == {"key"}
    assert outcome == "ok"


@pytest.mark.promise("grant-5")
def test_what_one_skill_may_write_does_not_move_what_another_may_read(
    manager_of: MakeManager, grant: Grant, tmp_path: Path, outside: Path
) -> None:
    data = tmp_path / "data"
    (data / "in").mkdir(parents=True)
    (data / "in/key").write_text("harmless")
    (data / "link").symlink_to(outside)
    manager = manager_of({"scripts/use.py": f"print(open('{data}/in/key').read())\n"})
    grant(manager, read=str(data / "in"))

    # As another skill can that may write `data`.
    with swapped(data / "in", data / "link"):
        said = [said_in(manager, "bad.use") for _ in range(ROUNDS)]
    outcome, _ = said_in(manager, "bad.use")

    assert not [each for each in said if "hunter2" in each[1]]
    assert outcome == "ok"


def read_all(read: Callable[[], bytes]) -> set[bytes]:
    """Return what many reads gave; a read that was refused gave nothing."""
    found = set[bytes]()
    for _ in range(ROUNDS * 50):
        try:
            found.add(read())
        except CannotReadError:
            found.add(b"")
    return found


@pytest.mark.promise("mcp-3")
@pytest.mark.parametrize("scheme", ["file", "workspace"])
def test_a_link_to_a_file_of_the_workspace_never_shows_one_outside(
    scheme: Scheme, workspace: Path, outside: Path
) -> None:
    report = workspace / "report"
    report.write_text("harmless")
    (workspace / "other").symlink_to(outside / "key")
    links = Links(workspace, scheme)
    (link,) = links.to([ChangedFile(path="report", type="text/plain", size=8)])

    with swapped(report, workspace / "other", pause=0.0002):
        found = read_all(lambda: (links.read(link.uri) or (b"", ""))[0])
    last = links.read(link.uri)

    assert found <= {b"harmless", b""}
    assert last is not None
    assert last[0] == b"harmless"


@pytest.mark.promise("ctx-2")
@pytest.mark.parametrize("part", ["references", "references/notes.md"])
def test_a_file_of_a_skill_is_never_read_through_a_link_that_leaves_it(
    part: str, write_skill: WriteSkill, outside: Path
) -> None:
    home = write_skill("demo", files={"references/notes.md": "harmless"})
    (outside / "notes.md").write_text("hunter2hunter2")
    target = outside if part == "references" else outside / "notes.md"
    (home / "other").symlink_to(target)

    file = f"{home}/references/notes.md"
    with swapped(home / part, home / "other", pause=0.0002):
        found = read_all(lambda: read_inside(file, str(home), 100).data)

    assert found <= {b"harmless", b""}
    assert read_inside(file, str(home), 100).data == b"harmless"


@pytest.mark.promise("def-2")
@pytest.mark.parametrize("part", ["skills", "skills/.skillpouch", "skills/.skillpouch/drafts"])
def test_a_skill_that_is_saved_never_lands_outside(
    part: str, workspace: Path, outside: Path
) -> None:
    (workspace / "skills/.skillpouch/drafts").mkdir(parents=True)
    saved = SavedSkills(workspace / "skills")
    (workspace / "link").symlink_to(outside)

    with swapped(workspace / part, workspace / "link", pause=0.0005):
        kept = [saves(saved, f"skill-{number}") for number in range(ROUNDS)]

    assert [path.name for path in outside.rglob("*")] == ["key"]
    assert len(kept) == ROUNDS
    assert saves(saved, "another")


def saves(saved: SavedSkills, name: str) -> bool:
    try:
        saved.save(name, {"SKILL.md": "text", "scripts/run.py": "pass"})
    except ToolFaultError:
        return False
    return True


@pytest.mark.promise("def-2")
def test_the_folder_for_saved_skills_is_there_and_read_only_from_the_first_call(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workspace)
    manager = SkillManager(workspace=workspace, define_tools=True, builtins=True, cache=False)

    result = manager.call("bash", {"command": "mv skills aside; ln -s / skills; touch skills/x"})

    assert result.is_error
    assert (workspace / "skills").is_dir()
    assert not (workspace / "skills").is_symlink()


@pytest.mark.promise("read-2")
def test_neither_the_digest_nor_a_copy_of_a_skill_takes_in_what_lies_outside(
    write_skill: WriteSkill, outside: Path
) -> None:
    home = write_skill("demo", files={"references/notes.md": "harmless"})
    (home / "aside").symlink_to(outside)
    copies, found = SkillCopies(), set[str]()

    with swapped(home / "references", home / "aside", pause=0.0001):
        for _ in range(ROUNDS * 5):
            with suppress(SkillpouchError):
                found |= set(manifest_of(home))
            with suppress(OSError, UncopyableError):
                copy = copies.make(str(home))
                found |= {path.name for path in Path(copy.folder).rglob("*")}
    copies.close()

    assert "references/notes.md" in manifest_of(home)
    assert not [path for path in found if path.endswith("key")]


LATER = [".envrc", ".git", ".git/hooks", ".git/config", ".claude", "sub", "sub/.git/hooks"]
# Swaps each name with a new one a hundred times, and says how often it could and why not.
TRY = """
import collections, ctypes, errno, os, sys, tempfile
swap, said = ctypes.CDLL(None, use_errno=True).renameat2, collections.Counter()
for name in sys.argv[1:]:
    other = tempfile.mkdtemp(prefix="own", dir=".")
    for _ in range(100):
        failed = swap(-100, name.encode(), -100, other.encode(), 2)
        said[errno.errorcode[ctypes.get_errno()] if failed else "swapped"] += 1
    os.rmdir(other)
print(sorted(said.items()))
"""


@pytest.fixture
def later(workspace: Path) -> dict[str, str]:
    """Write files that other programs run later; return all of them, with what is in them."""
    names = [".envrc", ".git/hooks/pre-commit", ".git/config", ".claude/settings.json"]
    for name in (*names, "sub/.git/hooks/pre-commit"):
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text("good")
    (workspace / "try.py").write_text(TRY)
    return written_in(workspace)


def written_in(folder: Path) -> dict[str, str]:
    files = [file for file in folder.rglob("*") if file.is_file()]
    return {str(file.relative_to(folder)): file.read_text() for file in files}


@pytest.mark.promise("fs-5")
def test_calls_that_run_at_once_swap_nothing_that_others_run_later(
    workspace: Path, later: dict[str, str]
) -> None:
    # Directly, so that they meet each other and the job.
    manager = SkillManager(
        workspace=workspace, builtins=True, cache=False, journal=False, writes="direct"
    )
    attack = f"python3 try.py {' '.join(LATER)}"
    forever = {"command": f"until [ -e stop ]; do {attack}; done", "background": True}
    job = manager.call("bash", forever).structured["job"]

    with ThreadPoolExecutor(4) as threads:
        calls = threads.map(lambda _: manager.call("bash", {"command": attack}), range(ROUNDS))
        said = {each.content.partition("\n")[0] for each in calls}
    (workspace / "stop").touch()
    ended = manager.call("bash", {"job": job, "timeout": 60_000})

    # A folder around is another mount: what lies in it cannot be renamed to what does not.
    assert said == {"[('EBUSY', 400), ('EXDEV', 300)]"}
    assert ended.structured["exit_code"] == 0
    assert "swapped" not in ended.content
    (workspace / "stop").unlink()
    assert written_in(workspace) == later


@pytest.mark.promise("fs-5")
@pytest.mark.parametrize("tool", ["write", "bash"])
def test_a_folder_that_turns_into_a_link_lets_no_call_write_what_others_run_later(
    tool: str, workspace: Path, later: dict[str, str]
) -> None:
    manager = SkillManager(workspace=workspace, builtins=True, cache=False, journal=False)
    (workspace / "docs").mkdir()
    (workspace / "link").symlink_to(workspace / ".git/hooks")
    use = {
        "write": {"file_path": "docs/pre-commit", "content": "bad"},
        "bash": {"command": "for n in 1 2 3 4 5 6 7 8 9; do echo bad > docs/pre-commit; done"},
    }

    # As a job in the workspace can: neither name is one that others run.
    with swapped(workspace / "docs", workspace / "link", pause=0.0005):
        for _ in range(ROUNDS):
            manager.call(tool, use[tool])

    (workspace / "docs/pre-commit").unlink(missing_ok=True)
    (workspace / "link").unlink()
    assert written_in(workspace) == later


@pytest.mark.promise("fs-5")
def test_what_others_run_later_never_leads_a_call_out_of_the_workspace(
    workspace: Path, later: dict[str, str], outside: Path
) -> None:
    manager = SkillManager(workspace=workspace, builtins=True, cache=False, journal=False)
    (workspace / "link").symlink_to(outside)
    command = {"command": "for n in 1 2 3 4 5; do cat .claude/key; touch .claude/marker; done"}
    said = []

    # As a program can that is not confined; what it could write itself is not looked at.
    with swapped(workspace / ".claude", workspace / "link"):
        for _ in range(ROUNDS):
            with suppress(SkillpouchError):
                said.append(manager.call("bash", command).content)

    assert not [each for each in said if "hunter2" in each]
    assert written_in(outside) == {"key": "hunter2hunter2"}
    assert later.keys() <= written_in(workspace).keys()


@pytest.mark.promise("fs-5")
def test_a_call_that_swaps_a_link_to_what_others_run_later_says_so(
    workspace: Path, later: dict[str, str]
) -> None:
    # Directly: in a layer nobody else ever meets a swapped link.
    manager = SkillManager(
        workspace=workspace, builtins=True, cache=False, journal=False, writes="direct"
    )
    (workspace / ".claude").rename(workspace / "settings")
    (workspace / ".claude").symlink_to("settings")

    def others(_: int) -> None:
        with suppress(SkillpouchError):
            manager.call("bash", {"command": "true"})

    with ThreadPoolExecutor(1) as thread:
        beside = thread.map(others, range(ROUNDS))
        # One after the other, and an even number of swaps each: the next one finds the link.
        swap = {"command": "python3 try.py .claude"}
        swaps = [manager.call("bash", swap) for _ in range(ROUNDS)]
        assert [*beside] == [None] * ROUNDS

    assert {each.content.partition("\n")[0] for each in swaps} == {"[('swapped', 100)]"}
    assert [each.run_later for each in swaps if ".claude" not in each.run_later] == []
    assert (workspace / ".claude").is_symlink()
    assert (workspace / "settings/settings.json").read_text() == later[".claude/settings.json"]
