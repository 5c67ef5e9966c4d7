"""`read_skill_file`: files of a skill, and nothing beside it."""

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skillpouch import SkillManager, ToolExecutor
from skillpouch.builtins.disclosure.tools import OutsideSkillError
from skillpouch.errors import CallDeniedError
from skillpouch.results import Attachment

WriteSkill = Callable[..., Path]

GUIDE = "# Guide\n\nFirst.\nSecond.\nThird.\n"
PIXEL = b"\x89PNG\r\n\x1a\n" + b"\0" * 24


def test_a_file_is_shown_with_line_numbers_and_where_it_comes_from(write_skill: WriteSkill) -> None:
    home = write_skill("guide", files={"references/guide.md": GUIDE})
    manager = SkillManager(home.parent)

    result = manager.call(
        "read_skill_file",
        {"skill": "guide", "path": "references/guide.md", "offset": 2, "limit": 2},
    )

    assert result.content == (
        '<skill_file skill="guide" path="references/guide.md">\n'
        "     3\tFirst.\n     4\tSecond.\n"
        "[lines 3 to 4 of 5; go on with offset 4]\n"
        "</skill_file>"
    )


def test_an_absolute_path_inside_the_skill_is_the_same_file(write_skill: WriteSkill) -> None:
    home = write_skill("guide", files={"guide.md": "Words.\n"})

    result = SkillManager(home.parent).call(
        "read_skill_file", {"skill": "guide", "path": str(home / "guide.md")}
    )

    assert "Words." in result.content


def test_an_image_is_given_as_it_is(write_skill: WriteSkill) -> None:
    home = write_skill("logo", files={"assets/logo.png": PIXEL})

    result = SkillManager(home.parent).call(
        "read_skill_file", {"skill": "logo", "path": "assets/logo.png"}
    )

    assert result.attachments == (Attachment(name="assets/logo.png", type="image/png", data=PIXEL),)


@pytest.mark.promise("ctx-2")
@pytest.mark.parametrize(
    "path",
    [
        "../other/SKILL.md",
        "references/../../other/SKILL.md",
        "/etc/passwd",
        "leads-out.md",
        "leads-out/SKILL.md",
        ".env",
        "references/.hidden",
        "to-the-hidden.md",
    ],
)
def test_nothing_outside_a_skill_and_nothing_hidden_is_shown(
    write_skill: WriteSkill, path: str
) -> None:
    other = write_skill("other")
    home = write_skill("guide", files={"references/.hidden": "x", ".env": "KEY=hunter2"})
    (home / "leads-out.md").symlink_to(other / "SKILL.md")
    (home / "leads-out").symlink_to(other)
    (home / "to-the-hidden.md").symlink_to(".env")

    with pytest.raises(OutsideSkillError) as raised:
        SkillManager(home.parent).call("read_skill_file", {"skill": "guide", "path": path})

    assert isinstance(raised.value, CallDeniedError)
    assert raised.value.code == "outside_skill"
    assert "name a file that `activate_skill` lists" in raised.value.hint


def test_a_wrong_name_says_which_was_meant(write_skill: WriteSkill) -> None:
    home = write_skill("guide", files={"guide.md": GUIDE})
    manager = SkillManager(home.parent)

    near = manager.call("read_skill_file", {"skill": "guide", "path": "giude.md"})
    far = manager.call("read_skill_file", {"skill": "guide", "path": "x.md"})

    assert near.content.endswith("hint: did you mean 'guide.md'?")
    assert far.content.endswith("hint: `activate_skill` lists the files of a skill")


@pytest.mark.promise("ctx-2")
def test_a_file_that_turns_into_a_link_meanwhile_never_shows_what_is_outside(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("hunter2\n")
    home = write_skill("guide", files={"a.md": "inside\n"})
    (home / "link").symlink_to(secret)
    manager = SkillManager(home.parent, journal=False)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            (home / "a.md").rename(home / "b.md")
            (home / "link").rename(home / "a.md")
            (home / "a.md").rename(home / "link")
            (home / "b.md").rename(home / "a.md")

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        seen = [shown(manager, "a.md") for _ in range(150)]
    finally:
        stop.set()
        swapping.join()

    assert not any("hunter2" in text for text in seen)


def shown(manager: SkillManager, path: str) -> str:
    try:
        return manager.call("read_skill_file", {"skill": "guide", "path": path}).content
    except CallDeniedError as error:
        return str(error)


@pytest.mark.slow
@pytest.mark.promise("ctx-2")
@given(path=st.text(st.sampled_from("./ab~\\\0é"), max_size=24))
@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_no_path_reads_what_lies_beside_the_skill(tmp_path: Path, path: str) -> None:
    home = tmp_path / "skills" / "guide"
    home.mkdir(parents=True, exist_ok=True)
    (home / "SKILL.md").write_text("---\nname: guide\ndescription: G.\n---\n")
    for place in (tmp_path, tmp_path / "skills"):
        for name in ("a", "b"):
            (place / name).write_text("hunter2")

    assert "hunter2" not in shown(SkillManager(tmp_path / "skills", journal=False), path)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("activate_skill", {"name": "guide"}),
        ("read_skill_file", {"skill": "guide", "path": "SKILL.md"}),
    ],
)
def test_a_skill_that_went_after_it_was_offered_is_said_to_be_gone(
    write_skill: WriteSkill, tmp_path: Path, name: str, arguments: dict[str, str]
) -> None:
    home = write_skill("guide")
    write_skill("other")
    manager = SkillManager(home.parent)
    offered = manager.get_tool(name)  # by a model that was shown it before
    shutil.rmtree(home)
    manager.discover()

    result = ToolExecutor([offered], workspace=tmp_path).execute_sync(name, arguments)

    assert (result.outcome, result.content.splitlines()) == (
        "failed",
        ["there is no skill 'guide' any more", "hint: `search_tools` finds what there is now"],
    )
