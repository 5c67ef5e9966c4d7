import os
from pathlib import Path

import pytest

from skillpouch.execution.zygote_client import probe
from skillpouch.runtime.removal import lock_folder
from tests.cli.conftest import Skillpouch

pytestmark = pytest.mark.slow


def test_doctor_tries_each_protection_and_says_what_happened(skillpouch: Skillpouch) -> None:
    report = skillpouch("doctor", "--json").json

    assert set(report["protections"]) >= {"fs", "net", "tree", "memory", "syscalls"}
    assert report["proofs"]["fs"].startswith("reading a file outside: ")
    assert "SUCCEEDED" not in " ".join(report["proofs"].values())
    assert set(report["profiles"]) == {"loopback", "local-sockets", "own-folder", "gpu"}
    assert "profiles" not in report["protections"]
    tried = "overlay" if probe().overlay else "direct"
    assert report["protections"]["writes"] == tried
    assert report["interpreters"]["python"]["version"].startswith("Python 3.")
    assert report["interpreters"]["bash"]["version"].startswith("GNU bash")


def test_doctor_is_readable_without_json(skillpouch: Skillpouch) -> None:
    ran = skillpouch("doctor")

    assert ran.code == 0
    assert "making a socket: " in ran.out
    assert "skillpouch 0.1.0" in ran.out


def test_doctor_compares_what_a_call_may_take_with_what_the_machine_has(
    skillpouch: Skillpouch, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = tmp_path / "config" / "skillpouch"
    settings.mkdir(parents=True)
    settings.chmod(0o700)
    (settings / "policy.toml").write_text(f"[[limits]]\nmemory_bytes = {1 << 60}\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(settings.parent))

    ran = skillpouch("doctor", "--json")
    memory = ran.json["memory"]

    assert memory["call_bytes"] == 1 << 60
    assert 0 < memory["available_bytes"] <= memory["machine_bytes"]
    assert [each for each in ran.json["warnings"] if "of memory, and only" in each]


def test_doctor_shows_our_folders_and_what_was_left_behind(
    skillpouch: Skillpouch, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    left, used = tmp_path / "temporary/skillpouch-left", tmp_path / "temporary/skillpouch-used"
    for folder in (left, used, tmp_path / "skillpouch"):
        folder.mkdir(parents=True)
        (folder / "large").write_bytes(b"x" * 2_000_000)
        os.link(folder / "large", folder / "same")
    os.close(lock_folder(left))
    held = lock_folder(used)

    report = skillpouch("doctor", "--json").json
    shown = skillpouch("doctor")
    os.close(held)

    rooms = {each["what"]: each for each in report["folders"]}
    assert 2_000_000 <= rooms["left behind"]["used_bytes"] < 2_200_000
    assert rooms["temporary files"]["used_bytes"] >= 2_000_000
    assert rooms["cache"]["used_bytes"] >= 2_000_000  # and what the command itself put there
    assert rooms["left behind"]["path"] == str(left)
    assert f"rm -r {left}" in shown.err
    assert f"in {tmp_path}/temporary" in shown.out
