"""Files of a workspace that other programs run later, skills in it, and what is read-only."""

import os
import subprocess
from pathlib import Path

import pytest

from skillpouch import ScriptedTool, SkillManager
from skillpouch.builtins.workspace.running import built_in_tools
from skillpouch.errors import SkillpouchError, WorkspaceError
from skillpouch.executor import ToolExecutor
from skillpouch.policy.approval import Answer
from skillpouch.policy.policy import Policy
from skillpouch.workspace import read_only
from tests.builtins.workspace.conftest import Use

pytestmark = pytest.mark.slow

FILES = [".git/hooks/pre-commit", ".git/config", ".envrc", ".mcp.json", ".claude/settings.json"]
MORE = [
    ".vscode/tasks.json",
    ".idea/x.xml",
    ".husky/pre-commit",
    "skillpouch.toml",
    "sub/.git/config",
]
MOVES = "mv .git aside; mv .claude aside2; mv sub aside3; mv .envrc aside4; rm -rf .git/hooks .idea"


@pytest.fixture
def project(workspace: Path) -> Path:
    for file in FILES + MORE:
        (workspace / file).parent.mkdir(parents=True, exist_ok=True)
        (workspace / file).write_text("good")
    return workspace


def tree(folder: Path) -> dict[str, str]:
    files = [file for file in folder.rglob("*") if file.is_file()]
    return {str(file.relative_to(folder)): file.read_text() for file in files}


@pytest.mark.promise("fs-5")
@pytest.mark.parametrize("file", FILES + MORE)
def test_write_and_edit_leave_what_runs_later_alone(use: Use, project: Path, file: str) -> None:
    wrote = use("write", file_path=file, content="bad")
    use("read", file_path=file)
    edited = use("edit", file_path=file, old_string="good", new_string="bad")

    assert (wrote.code, edited.code) == ("denied", "denied")
    assert (project / file).read_text() == "good"


@pytest.mark.promise("fs-5")
def test_bash_leaves_what_runs_later_alone(use: Use, project: Path) -> None:
    before = tree(project)

    lines = [f"echo bad > {file}; rm -f {file}; ln -sf /etc/passwd {file}" for file in FILES + MORE]
    use("bash", command=f"{'; '.join(lines)}; {MOVES}")

    assert tree(project) == before


@pytest.mark.promise("fs-5")
def test_a_script_leaves_what_runs_later_alone(project: Path, tmp_path: Path) -> None:
    home = tmp_path / "skills/demo/scripts"
    home.mkdir(parents=True)
    (home.parent / "SKILL.md").write_text("---\nname: demo\ndescription: Does it.\n---\n")
    lines = "\n".join(f"echo bad > {file}; rm -f {file}" for file in FILES + MORE)
    (home / "x.sh").write_text(f"{lines}\n{MOVES}\necho done\n")
    before = tree(project)

    result = SkillManager(tmp_path / "skills", workspace=project, journal=False).call("x")

    assert result.content == "done"
    assert tree(project) == before


@pytest.mark.promise("fs-5")
def test_a_repository_still_takes_commits(use: Use, workspace: Path) -> None:
    subprocess.run(["git", "init", "-q", str(workspace)], check=True)
    identity = "-c user.name=Ada -c user.email=ada@example.org"
    (workspace / "a").write_text("one")

    done = use("bash", command=f"git {identity} add a && git {identity} commit -qm one && git log")

    assert done.outcome == "ok", done.content
    assert "one" in done.content
    assert use("bash", command="git config core.hooksPath evil").is_error


@pytest.mark.promise("fs-5")
@pytest.mark.parametrize(
    ("file", "named"),
    [
        (".envrc", ".envrc"),
        (".git/hooks/pre-commit", ".git/hooks"),
        ("deep/er/.git/config", "deep/er/.git/config"),
        (".claude/settings.json", ".claude"),
    ],
)
def test_what_a_call_makes_of_that_kind_is_named(use: Use, file: str, named: str) -> None:
    made = use("bash", command=f"mkdir -p $(dirname {file}); echo x > {file}")

    assert (made.outcome, made.run_later) == ("ok", (named,))
    assert f"it made {named}, which other programs run unconfined" in made.content
    assert use("bash", command="true").run_later == ()


@pytest.mark.promise("fs-5")
def test_what_write_makes_of_that_kind_is_named_and_then_read_only(use: Use) -> None:
    made = use("write", file_path=".envrc", content="first")

    assert made.run_later == (".envrc",)
    assert use("write", file_path=".envrc", content="second").code == "denied"
    assert use("bash", command="echo second > .envrc").is_error


@pytest.mark.promise("fs-5")
def test_times_that_a_tool_sets_hide_nothing(use: Use, workspace: Path) -> None:
    os.utime(workspace, (1, 1))
    use("bash", command="true")

    made = use("bash", command="echo x > .envrc; touch -d @1 .")

    assert made.run_later == (".envrc",)
    assert use("bash", command="echo y > .envrc").is_error


@pytest.mark.promise("fs-5")
def test_a_link_out_of_the_workspace_shows_nothing_more(use: Use, workspace: Path) -> None:
    outside = workspace.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_text("s3cret")
    (workspace / ".claude").symlink_to(outside)

    assert "s3cret" not in use("bash", command="cat .claude/secret").content


@pytest.mark.promise("fs-5")
def test_a_grant_of_that_path_lets_it_be_written(project: Path, tmp_path: Path) -> None:
    home = tmp_path / "skills/demo"
    (home / "scripts").mkdir(parents=True)
    (home / "SKILL.md").write_text(
        "---\nname: demo\ndescription: Does it.\n"
        f"metadata: {{skillpouch: {{write: [{project}/.claude]}}}}\n---\n"
    )
    (home / "scripts/x.sh").write_text("echo new > .claude/settings.json; echo new > .envrc\n")
    manager = SkillManager(
        tmp_path / "skills",
        workspace=project,
        journal=False,
        policy=Policy(),
        approver=lambda _: Answer(yes=True),
    )

    manager.call("x")

    assert (project / ".claude/settings.json").read_text() == "new\n"
    assert (project / ".envrc").read_text() == "good"


def git(*words: str, at: Path) -> str:
    name = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    return subprocess.run(
        ["git", *name, *words], cwd=at, check=True, capture_output=True, text=True
    ).stdout


@pytest.mark.promise("fs-5")
def test_a_worktree_does_not_look_elsewhere_for_its_configuration(
    use: Use, workspace: Path
) -> None:
    git("init", "-q", at=workspace)
    git("commit", "-q", "--allow-empty", "-m", "one", at=workspace)
    git("worktree", "add", "-q", "other", at=workspace)

    use("bash", command="mkdir evil; cp -r .git/HEAD .git/refs .git/objects evil")
    use("bash", command="printf '[core]\nfsmonitor=touch ran\n' > evil/config")
    use("bash", command="echo ../../../evil > .git/worktrees/other/commondir")
    git("status", at=workspace / "other")

    assert not list(workspace.rglob("ran"))


@pytest.mark.promise("fs-5")
def test_a_folder_that_git_takes_for_a_repository_is_named(use: Use) -> None:
    first = use("bash", command="mkdir -p docs/more; echo '[core]' > docs/more/config")
    made = use("bash", command="cd docs/more; mkdir objects refs; echo ref: refs/heads/x > HEAD")

    assert (first.run_later, made.run_later) == ((), ("docs/more/config",))


@pytest.mark.promise("fs-5")
@pytest.mark.parametrize("home", [".", "sub", "sub/bare.git"])
def test_hooks_of_a_bare_repository_stay_as_they_are(use: Use, workspace: Path, home: str) -> None:
    (workspace / home).mkdir(parents=True, exist_ok=True)
    git("init", "-q", "--bare", at=workspace / home)

    made = use("bash", command=f"echo bad > {home}/hooks/post-update; echo bad >> {home}/config")

    assert "Read-only file system" in made.stderr
    assert "bad" not in (workspace / home / "config").read_text()
    assert not (workspace / home / "hooks/post-update").exists()


@pytest.mark.promise("fs-5")
def test_a_repository_is_not_forgotten_among_many_folders(
    use: Use, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_only, "_SEARCH_SECONDS", 0.0)
    (workspace / "zz/inner/.git/hooks").mkdir(parents=True)

    use("bash", command="for n in $(seq 600); do mkdir -p a$n/b/.git; done")
    use("bash", command="echo bad > zz/inner/.git/hooks/pre-commit")

    assert not (workspace / "zz/inner/.git/hooks/pre-commit").exists()


@pytest.mark.promise("fs-5")
@pytest.mark.parametrize("moved", ["one", "one/two"])
def test_a_repository_that_was_moved_behind_a_link_is_kept_where_it_is(
    use: Use, workspace: Path, moved: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_only, "_SEARCH_SECONDS", 0.0)
    (workspace / "one/two/.git").mkdir(parents=True)
    (workspace / "one/two/.git/config").write_text("good")
    use("bash", command="true")
    (workspace / moved).rename(workspace / "new")
    (workspace / moved).symlink_to(workspace / "new")

    done = use("bash", command="echo bad > one/two/.git/config; echo done")

    assert done.content == "done"
    assert (workspace / "one/two/.git/config").read_text() == "good"


@pytest.mark.promise("fs-5")
def test_any_number_of_repositories_leaves_a_workspace_usable(use: Use, workspace: Path) -> None:
    for number in range(64):
        (workspace / f"r{number}/in/.git/hooks").mkdir(parents=True)
        (workspace / f"r{number}/in/.git/config").write_text("good")

    use("bash", command="for f in r*/in/.git/config; do echo bad > $f; mv r0 aside; done")
    done = use("bash", command="echo fine > file; cat file")

    assert (done.outcome, done.content) == ("ok", "fine")
    assert {f.read_text() for f in workspace.glob("r*/in/.git/config")} == {"good"}


@pytest.mark.promise("fs-5")
@pytest.mark.parametrize("target", ["notes", "gone", "/etc/passwd"])
def test_a_link_of_that_name_is_named(use: Use, workspace: Path, target: str) -> None:
    (workspace / "notes").write_text("x")

    made = use("bash", command=f"ln -s {target} .envrc")

    assert ".envrc" in made.run_later


@pytest.mark.promise("fs-5")
def test_what_a_link_of_that_name_leads_to_is_named_when_it_comes(
    use: Use, workspace: Path
) -> None:
    (workspace / "inner").mkdir()
    (workspace / ".envrc").symlink_to("inner/file")
    use("bash", command="sleep 0.2")

    made = use("bash", command="echo x > inner/file")

    assert made.run_later == ("inner/file",)
    assert use("bash", command="echo y > inner/file").is_error


@pytest.mark.promise("fs-5")
def test_a_change_by_a_second_name_of_the_same_file_is_named(use: Use, workspace: Path) -> None:
    (workspace / ".envrc").write_text("good")
    (workspace / "innocent").hardlink_to(workspace / ".envrc")
    use("bash", command="true")

    changed = use("bash", command="echo bad > innocent")

    assert changed.run_later == (".envrc",)
    assert use("bash", command="true").run_later == ()


@pytest.mark.promise("fs-5")
def test_what_a_job_makes_is_named_when_it_is_looked_at(use: Use) -> None:
    job = use("bash", command="echo x > .envrc", background=True).structured["job"]
    looks = [use("bash", job=job, timeout=10_000), use("bash", job=job)]

    assert [look.run_later for look in looks] == [(".envrc",), ()]
    assert "it made .envrc, which other programs run unconfined" in looks[0].content


@pytest.fixture
def rooted(workspace: Path) -> SkillManager:
    """A manager whose root is the workspace, with two skills in it, of one of them two."""
    for folder in ("one", "two", "old/two"):
        home = workspace / "kept" / folder
        (home / "scripts").mkdir(parents=True)
        (home / "SKILL.md").write_text(f"---\nname: {home.name}\ndescription: Does it.\n---\n")
        (home / "scripts/x.sh").write_text("echo good\n")
    (workspace / "kept/one/scripts/x.sh").write_text(
        "echo bad > kept/two/scripts/x.sh\nmv kept/two kept/gone\nmv kept aside\necho mine > own\n"
    )
    return SkillManager(workspace, workspace=workspace, builtins=True, journal=False)


@pytest.mark.promise("fs-2")
def test_skills_stay_as_they_are_where_the_root_is_the_workspace(
    rooted: SkillManager, workspace: Path
) -> None:
    before = tree(workspace)

    rooted.call("one.x")
    rooted.call("bash", {"command": "echo bad > kept/two/scripts/x.sh; mv kept aside; rm -rf kept"})
    rooted.call("bash", {"command": "echo bad > kept/old/two/scripts/x.sh"})
    wrote = rooted.call("write", {"file_path": "kept/two/SKILL.md", "content": "bad"})

    assert wrote.code == "denied"
    assert tree(workspace) == {**before, "own": "mine\n"}
    assert rooted.call("two.x").content == "good"


def executor_of(workspace: Path, *read_only: Path) -> ToolExecutor:
    return ToolExecutor(built_in_tools(), workspace=workspace, read_only=read_only, journal=False)


@pytest.mark.promise("fs-6")
@pytest.mark.parametrize("what", [".", "..", "file", "folder", "later"])
def test_what_was_said_to_be_read_only_is(workspace: Path, what: str) -> None:
    executor = executor_of(workspace, (workspace / what).resolve())
    executor.execute_sync("bash", {"command": "true"})
    (workspace / "folder").mkdir()
    (workspace / "later").mkdir()
    (workspace / "file").write_text("good")
    names = {"file": "file", "folder": "folder/x", "later": "later/x"}.get(what, "new")

    bash = executor.execute_sync("bash", {"command": f"echo bad > {names}"})
    wrote = executor.execute_sync("write", {"file_path": names, "content": "bad"})

    assert (bash.is_error, wrote.code) == (True, "denied")
    assert tree(workspace) == {"file": "good"}


@pytest.mark.promise("fs-6")
@pytest.mark.parametrize(
    "link", ["ln -s other later", "mkdir x; ln -s ../other x/later; ln -s x y"]
)
def test_a_link_where_something_is_to_be_read_only_changes_nothing(
    workspace: Path, link: str
) -> None:
    kept = "y/later" if "x" in link else "later"
    executor = executor_of(workspace, workspace / kept)
    made = f"mkdir other; echo good > other/file; {link}"
    executor.execute_sync("bash", {"command": made})

    names = (f"{kept}/file", "other/file")
    bash = [executor.execute_sync("bash", {"command": f"echo bad > {name}"}) for name in names]
    wrote = [
        executor.execute_sync("write", {"file_path": name, "content": "bad"}) for name in names
    ]

    assert [each.stderr.endswith("Read-only file system\n") for each in bash] == [True, True]
    assert [each.code for each in wrote] == ["denied", "denied"]
    assert (workspace / "other/file").read_text() == "good\n"


@pytest.mark.promise("fs-6")
def test_write_does_not_make_what_is_to_be_read_only(workspace: Path) -> None:
    executor = executor_of(workspace, workspace / "later")

    wrote = executor.execute_sync("write", {"file_path": "later/x", "content": "bad"})

    assert wrote.code == "denied"
    assert list(workspace.iterdir()) == []


def test_a_current_folder_that_was_removed_is_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    executor = ToolExecutor(built_in_tools(), journal=False)
    monkeypatch.chdir(gone)
    gone.rmdir()

    with pytest.raises(WorkspaceError, match="the current folder cannot be a workspace") as raised:
        executor.execute_sync("bash", {"command": "true"})

    assert isinstance(raised.value, SkillpouchError)
    assert "--workspace DIR" in raised.value.hint
    monkeypatch.chdir(tmp_path)


@pytest.mark.promise("fs-5")
def test_what_a_script_of_tools_made_is_named_in_its_own_result(tmp_path: Path) -> None:
    manager = SkillManager(tmp_path / "skills", workspace=tmp_path, builtins=True)
    script = ScriptedTool.over(manager)
    executor = ToolExecutor([script.as_tool()], workspace=tmp_path)

    result = executor.execute_sync(
        script.name, {"commands": "pouch.write --file_path .claude/settings.json --content x"}
    )

    assert (result.outcome, result.run_later) == ("ok", (".claude",))
