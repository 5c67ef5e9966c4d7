"""Where policy files are found, and which of them are not read."""

import os
from pathlib import Path

import pytest

from skillpouch import Policy
from skillpouch.environment import config_directory
from skillpouch.errors import PolicyFileError
from skillpouch.policy.loading import read_project, read_user_policy


def test_the_config_directory_follows_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert config_directory() == tmp_path / ".config" / "skillpouch"

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "etc"))
    assert config_directory() == tmp_path / "etc" / "skillpouch"


def test_without_a_home_there_is_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr(Path, "home", _no_home)

    assert read_user_policy() == Policy()


def _no_home() -> Path:
    raise RuntimeError("no home")


@pytest.mark.promise("pol-6")
def test_a_file_that_is_there_and_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    folder, gone, fifo, huge = (tmp_path / name for name in ("folder", "gone", "fifo", "huge"))
    folder.mkdir()
    gone.symlink_to(tmp_path / "nowhere")
    os.mkfifo(fifo)
    huge.write_bytes(b"#" * (4 * 1024 * 1024 + 1))

    for path in (folder, gone, fifo, huge):
        with pytest.raises(PolicyFileError) as raised:
            read_user_policy(path)
        assert [problem.code for problem in raised.value.problems] == ["policy-unreadable"]


@pytest.mark.promise("pol-6")
def test_a_project_file_has_a_bound_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "skillpouch.toml").write_bytes(b"#" * (64 * 1024 + 1))

    with pytest.raises(PolicyFileError, match="65,537 bytes are more than the 65,536 allowed"):
        read_project(tmp_path)


@pytest.mark.promise("pol-6")
def test_a_policy_that_others_could_have_written_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text("")
    assert read_user_policy(path) == Policy()

    path.chmod(0o666)

    with pytest.raises(PolicyFileError, match="everybody can write it"):
        read_user_policy(path)


@pytest.mark.promise("pol-6")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_policy_of_another_user_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text("")
    os.chown(path, 12345, 12345)

    with pytest.raises(PolicyFileError, match="it belongs to another user"):
        read_user_policy(path)
