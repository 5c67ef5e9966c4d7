"""What an agent is given when it uses a skill: instructions, arguments in place, files listed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from skillpouch import SkillManager
from skillpouch.errors import SkillNotFoundError

WriteSkill = Callable[..., Path]
Invoke = Callable[..., str]


@pytest.fixture
def invoke(write_skill: WriteSkill) -> Invoke:
    def write_and_invoke(
        body: str, arguments: str = "", files: dict[str, str | bytes] | None = None
    ) -> str:
        home = write_skill(body=body, files=files)
        return SkillManager(home.parent, cache=False).invoke_skill("demo", arguments)

    return write_and_invoke


def test_the_frontmatter_is_left_out_and_the_folder_is_named(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    write_skill(front="name: demo\ndescription: A secret phrase.\n", body="# Title\n\nDo it.\n")

    text = SkillManager(tmp_path / "skills").invoke_skill("demo")

    assert "secret phrase" not in text
    assert "---" not in text
    assert "# Title\n\nDo it." in text
    assert str(tmp_path / "skills/demo") in text


@pytest.mark.parametrize(
    ("body", "arguments", "expected"),
    [
        ("Greet $ARGUMENTS now.", "Ada", "Greet Ada now."),
        ("$ARGUMENTS and $ARGUMENTS", "x", "x and x"),
        ("Greet $ARGUMENTS.", "", "Greet ."),
        ("From $1 to $2.", "Bern Basel", "From Bern to Basel."),
        ("From $1 to $2.", "'New York' Basel", "From New York to Basel."),
        ("From $2 to $1.", "a b c", "From b to a."),
        ("Keep $$ARGUMENTS here: $ARGUMENTS", "x", "Keep $ARGUMENTS here: x"),
        ("$ARGUMENTS", "$1 $ARGUMENTS {baseDir}", "$1 $ARGUMENTS {baseDir}"),
        ("$1", "'$2' b", "$2"),
        ("$ARGUMENTS", r"\1 \g<0> \n", r"\1 \g<0> \n"),
        ("Say $ARGUMENTS", 'an "open quote', 'Say an "open quote'),
        ("Costs $5", "only one", "Costs $5"),
        ("$12", "a b c d e f g h i j k l", "l"),
    ],
)
def test_arguments_are_put_in_place_once(
    invoke: Invoke, body: str, arguments: str, expected: str
) -> None:
    lines = invoke(body, arguments).splitlines()

    assert expected in lines


@pytest.mark.parametrize("body", ["No placeholder.", "Only $$ARGUMENTS.", "Uses {baseDir}."])
def test_without_a_placeholder_the_arguments_are_appended(invoke: Invoke, body: str) -> None:
    text = invoke(body, "the argument text")

    assert text.index("the argument text") > text.index(body[:4])


def test_with_a_placeholder_nothing_is_appended(invoke: Invoke) -> None:
    assert invoke("Greet $ARGUMENTS.", "Ada Lovelace").count("Ada Lovelace") == 1


def test_without_arguments_nothing_is_appended(invoke: Invoke) -> None:
    assert "ARGUMENTS" not in invoke("No placeholder.")


@pytest.mark.parametrize("placeholder", ["{baseDir}", "${CLAUDE_SKILL_DIR}"])
def test_the_folder_of_the_skill_is_put_in_place(
    invoke: Invoke, tmp_path: Path, placeholder: str
) -> None:
    text = invoke(f"Run {placeholder}/scripts/x.sh and {placeholder}/y.")

    home = tmp_path / "skills/demo"
    assert f"Run {home}/scripts/x.sh and {home}/y." in text


def test_the_root_of_the_plugin_is_put_in_place(write_skill: WriteSkill, tmp_path: Path) -> None:
    write_skill(body="Read ${CLAUDE_PLUGIN_ROOT}/data.", root="plugin/skills")
    (tmp_path / "plugin/.claude-plugin").mkdir()
    (tmp_path / "plugin/.claude-plugin/plugin.json").write_text('{"name": "office"}')

    text = SkillManager(tmp_path).invoke_skill("office:demo")

    assert f"Read {tmp_path}/plugin/data." in text


def test_commands_in_the_text_are_never_run(invoke: Invoke, tmp_path: Path) -> None:
    body = f"Now: !`touch {tmp_path}/ran` and $(touch {tmp_path}/ran) and `touch {tmp_path}/ran`."

    text = invoke(body, f"$(touch {tmp_path}/ran)")

    assert body in text
    assert not (tmp_path / "ran").exists()


def test_the_other_files_are_listed_and_not_read(invoke: Invoke) -> None:
    files: dict[str, str | bytes] = {
        "references/guide.md": "UNREAD",
        "scripts/run.py": "UNREAD",
        "assets/logo.png": b"\x89PNG UNREAD",
        ".hidden": "UNREAD",
        "node_modules/x/index.js": "UNREAD",
        "inner/SKILL.md": "UNREAD",
        "inner/theirs.txt": "UNREAD",
    }

    text = invoke("Do it.", files=files)

    assert "UNREAD" not in text
    for name in ("references/guide.md", "scripts/run.py", "assets/logo.png"):
        assert f"<file>{name}</file>" in text
    for name in (".hidden", "index.js", "theirs.txt", "<file>SKILL.md"):
        assert name not in text


def test_the_list_of_files_is_capped_and_says_so(invoke: Invoke) -> None:
    text = invoke("Do it.", files={f"data/{number:04}.txt": "" for number in range(1500)})

    assert text.count("<file>") < 300
    assert "more" in text.rpartition("<file>")[2]


def test_a_skill_without_other_files_has_no_list(invoke: Invoke) -> None:
    assert "<skill_resources>" not in invoke("Do it.")


def test_a_file_name_cannot_end_the_list(invoke: Invoke) -> None:
    text = invoke("Do it.", files={"a<b>&c.txt": "", "x\u202ey.txt": ""})

    assert text.count("</skill_resources>") == 1
    assert "<b>" not in text
    assert "\u202e" not in text


def test_hidden_text_does_not_reach_the_agent(invoke: Invoke) -> None:
    text = invoke("Vis\u200bible\U000e0041\u202e text\x1b[31m.")

    assert "Visible text." in text


def test_links_in_the_folder_are_neither_followed_nor_a_loop(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    home = write_skill()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/private.txt").write_text("x")
    (home / "out").symlink_to(tmp_path / "outside")
    (home / "up").symlink_to("..")

    text = SkillManager(home.parent).invoke_skill("demo")

    assert "private.txt" not in text


def test_a_skill_that_is_not_there_raises_and_names_the_nearest(write_skill: WriteSkill) -> None:
    home = write_skill()

    with pytest.raises(SkillNotFoundError) as caught:
        SkillManager(home.parent).invoke_skill("demmo")

    assert (caught.value.code, caught.value.nearest) == ("skill_not_found", ["demo"])


async def test_the_same_text_without_blocking(write_skill: WriteSkill) -> None:
    home = write_skill(body="Greet $ARGUMENTS.")
    manager = SkillManager(home.parent)
    await manager.adiscover()

    assert await manager.ainvoke_skill("demo", "Ada") == manager.invoke_skill("demo", "Ada")
