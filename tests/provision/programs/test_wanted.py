"""What a declaration wants on a platform."""

import platform

import pytest

from skillpouch.provision.programs.fetching import (
    WantedFile,
    for_platform,
    this_platform,
    wanted_for,
)
from skillpouch.trust.errors import DownloadError

pytestmark = pytest.mark.slow

HASH = "ab" * 32


def test_a_text_is_for_every_platform() -> None:
    found = wanted_for("https://example.com/x", f"sha256:{HASH.upper()}", "linux-x86_64")

    assert found == WantedFile(url="https://example.com/x", host="example.com", sha256=HASH)


@pytest.mark.parametrize(
    ("keys", "name", "chosen"),
    [
        (["linux-x86_64", "linux", "any"], "linux-x86_64", "linux-x86_64"),
        (["linux", "any"], "linux-x86_64", "linux"),
        (["darwin", "any"], "linux-x86_64", "any"),
        (["Linux-AMD64"], "linux-x86_64", "Linux-AMD64"),
        (["linux/arm64"], "linux-aarch64", "linux/arm64"),
        (["linux_arm64"], "linux-aarch64", "linux_arm64"),
        (["macos-arm64"], "darwin-aarch64", "macos-arm64"),
        (["linux-riscv64"], "linux-riscv64", "linux-riscv64"),
        (["linux-arm64"], "linux-x86_64", None),
        ([], "linux-x86_64", None),
    ],
)
def test_the_closest_platform_is_chosen(keys: list[str], name: str, chosen: str | None) -> None:
    assert for_platform({key: key for key in keys}, name) == chosen


def test_this_machine_has_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "AMD64")
    assert this_platform() == "linux-x86_64"
    monkeypatch.setattr(platform, "machine", lambda: "s390x")
    assert this_platform() == "linux-s390x"


@pytest.mark.promise("get-7")
@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://example.com/x", "only https is allowed"),
        ("ftp://example.com/x", "only https is allowed"),
        ("file:///etc/passwd", "only https is allowed"),
        ("https://user@example.com/x", "ambiguous"),
        ("https://${host}/x", "ambiguous"),
        ("https://example.com/x y", "not an address"),
        ("https://example.com/x\u202ey", "not an address"),
        ("https://example.com/x/", "a folder"),
        ("https://example.com/?x", "a folder"),
    ],
)
def test_what_is_not_one_file_by_https_is_refused(url: str, reason: str) -> None:
    with pytest.raises(DownloadError, match=reason):
        wanted_for(url, HASH, "linux-x86_64")


def test_a_platform_that_is_missing_is_named() -> None:
    with pytest.raises(DownloadError, match="no `sha256` for this platform") as caught:
        wanted_for("https://example.com/x", {"darwin": HASH}, "linux-x86_64")
    assert caught.value.hint == "there are: darwin"
    with pytest.raises(DownloadError, match="no `url`"):
        wanted_for({}, None, "linux-x86_64")


def test_a_hash_that_is_none_is_refused() -> None:
    with pytest.raises(DownloadError, match="64 hexadecimal digits"):
        wanted_for("https://example.com/x", "abc", "linux-x86_64")
