import pytest

from tests.cli.conftest import Skillpouch

pytestmark = pytest.mark.slow


def test_doctor_tries_each_protection_and_says_what_happened(skillpouch: Skillpouch) -> None:
    report = skillpouch("doctor", "--json").json

    assert set(report["protections"]) >= {"fs", "net", "tree", "memory", "syscalls"}
    assert report["proofs"]["fs"].startswith("reading a file outside: ")
    assert "SUCCEEDED" not in " ".join(report["proofs"].values())
    assert report["interpreters"]["python"]["version"].startswith("Python 3.")
    assert report["interpreters"]["bash"]["version"].startswith("GNU bash")


def test_doctor_is_readable_without_json(skillpouch: Skillpouch) -> None:
    ran = skillpouch("doctor")

    assert ran.code == 0
    assert "making a socket: " in ran.out
    assert "skillpouch 0.1.0" in ran.out
