"""Paths: a grant covers what really lies below it, and never the home by being above it."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillpouch.trust.grant import covers_path, holds_home, real_path

without_deadline = settings(deadline=None)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """granted/ with files and links in and out of it, beside what was not granted."""
    root = Path(os.path.realpath(tmp_path_factory.mktemp("tree")))
    for path in ("granted/in/deep", "granted-too", "other/deep"):
        (root / path).mkdir(parents=True)
    (root / "granted/file").write_text("x")
    (root / "granted/out").symlink_to("../other")
    (root / "granted/self").symlink_to(".")
    (root / "granted/nowhere").symlink_to("../other/missing")
    (root / "other/back").symlink_to("../granted/in")
    (root / "granted/loop").symlink_to("loop")
    return root


@pytest.mark.promise("grant-5")
@pytest.mark.parametrize(
    "needed",
    [
        *("granted", "granted/", "granted/.", "granted/in", "granted/file", "granted/in/deep/new"),
        *("granted//in", "granted/in/../file", "other/../granted/in", "other/back/deep"),
        *("granted/self/self/in", "granted/missing/below"),
    ],
)
def test_a_granted_path_covers_what_is_below_it(tree: Path, needed: str) -> None:
    assert covers_path(str(tree / "granted"), f"{tree}/{needed}")


@pytest.mark.promise("grant-5")
@pytest.mark.parametrize(
    "needed",
    [
        *("", "other", "granted-too", "granted/..", "granted/../other", "granted/in/../../other"),
        *(
            "granted/out",
            "granted/out/deep",
            "granted/self/out",
            "granted/nowhere",
            "granted/out/..",
        ),
        *("Granted", "granted\0", "granted/in/deep/../../../other/deep"),
    ],
)
def test_a_granted_path_covers_nothing_else(tree: Path, needed: str) -> None:
    assert not covers_path(str(tree / "granted"), f"{tree}/{needed}")


@pytest.mark.parametrize("granted", ["", ".", "granted", "~", "/a/../b", "/a/", "//a", "/a//b"])
def test_a_grant_that_is_not_written_out_covers_nothing(granted: str) -> None:
    assert not covers_path(granted, "/a/b")
    assert not covers_path(granted, granted)


def test_a_link_put_in_the_place_of_a_granted_folder_moves_nothing(tmp_path: Path) -> None:
    granted = tmp_path / "granted"
    granted.mkdir()
    (tmp_path / "other").mkdir()
    kept = real_path(str(granted))
    granted.rmdir()
    granted.symlink_to("other")

    assert not covers_path(kept, f"{granted}/file")


@pytest.mark.promise("grant-5")
def test_the_home_is_covered_by_a_grant_of_exactly_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/srv/people/ada")

    assert not covers_path("/", "/srv/people/ada")
    assert not covers_path("/srv/people", "/srv/people/ada")
    assert not covers_path("/", "/srv/people")
    assert not covers_path("/srv", "/")
    assert covers_path("/srv/people/ada", "/srv/people/ada/")
    assert covers_path("/srv/people/ada", "/srv/people/ada/notes")
    assert covers_path("/srv/people", "/srv/people/bob")
    assert covers_path("/", "/")


def test_without_a_home_only_the_whole_machine_is_that_wide(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError))

    assert holds_home("/")
    assert not holds_home("/srv")


STEPS = st.lists(
    st.sampled_from(
        [
            "granted",
            "in",
            "deep",
            "file",
            "out",
            "self",
            "other",
            "back",
            "loop",
            "..",
            ".",
            "",
            "x",
        ]
    ),
    max_size=8,
)


@without_deadline
@given(STEPS)
def test_no_path_slips_out_of_a_grant(tree: Path, steps: list[str]) -> None:
    granted, needed = tree / "granted", "/".join([str(tree), *steps])

    covered = covers_path(str(granted), needed)

    # The system's own answer: is one of the folders above it the granted one?
    try:
        real = Path(needed).resolve()
    except (OSError, RuntimeError):
        return
    above = [each for each in (real, *real.parents) if each.exists()]
    assert covered == any(each.samefile(granted) for each in above)
