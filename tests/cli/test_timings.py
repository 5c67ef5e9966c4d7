"""`skillpouch call --timings`: where the time of a call went, for people and for programs."""

import re

import pytest

from tests.cli.conftest import Skillpouch
from tests.conftest import WriteSkill

pytestmark = pytest.mark.slow

STEPS = [
    *("start Skillpouch", "read the skills", "find the tool", "check the arguments"),
    *("find its packages", "prepare", "look at the machine", "wait for a process"),
    *("run", "read the answer"),
]
HANDLER = '"""Say ok."""\n\n\ndef handler(args):\n    return {"ok": True}\n'
GETTEXT = "def gettext(text):\n    return text\n\n\nngettext = gettext\n"  # argparse imports it
WARM = "served by a prestarted process, or one is started for the next call"
SHADOWED = "a file of the skill has the name of a module that is already loaded"


def lines_of(text: str) -> list[tuple[str, float, str]]:
    found = re.findall(r"^(\S.*?) +(-?\d+\.\d) ms(?:   (.*))?$", text, re.MULTILINE)
    return [(what, float(taken), rest) for what, taken, rest in found]


def test_timings_come_after_the_answer_and_beside_it(
    skillpouch: Skillpouch, write_skill: WriteSkill
) -> None:
    write_skill(files={"scripts/ok.py": HANDLER})

    ran = skillpouch("call", "ok", "--timings")

    lines = lines_of(ran.err)
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (0, '{"ok": true}\n', len(lines))
    assert [what for what, _, _ in lines if what in STEPS] == STEPS
    assert lines[-1][0] == "in all"
    assert lines[-1][1] == pytest.approx(sum(taken for _, taken, _ in lines[:-1]), abs=1)
    assert all(taken >= 0 for _, taken, _ in lines)
    assert lines[-1][2] == WARM


@pytest.mark.parametrize(
    ("files", "how"),
    [
        ({"scripts/ok.sh": "# Say ok.\necho ok\n"}, "started afresh"),
        (
            {"scripts/ok.py": HANDLER + "import argparse\n", "scripts/gettext.py": GETTEXT},
            f"started afresh: {SHADOWED}",
        ),
        ({"scripts/ok.mjs": "/** Say ok. */\nexport default () => 1;\n"}, WARM),
    ],
)
def test_timings_say_how_the_tool_was_started(
    skillpouch: Skillpouch, write_skill: WriteSkill, files: dict[str, str], how: str
) -> None:
    write_skill(files=files)

    assert lines_of(skillpouch("call", "demo.ok", "--timings").err)[-1][2] == how


def test_a_program_gets_the_timings_in_milliseconds(
    skillpouch: Skillpouch, write_skill: WriteSkill
) -> None:
    write_skill(files={"scripts/ok.py": HANDLER})

    ran = skillpouch("call", "ok", "--timings", "--json")

    assert ran.err == ""
    assert [what for what in ran.json["timings"] if what in STEPS] == STEPS
    assert all(taken >= 0 for taken in ran.json["timings"].values())


def test_without_being_asked_for_there_are_no_timings(
    skillpouch: Skillpouch, write_skill: WriteSkill
) -> None:
    write_skill(files={"scripts/ok.py": HANDLER})

    ran = skillpouch("call", "ok", "--json")

    assert "timings" not in ran.json
    assert ran.err == ""


def test_a_failed_call_has_timings_too(skillpouch: Skillpouch, write_skill: WriteSkill) -> None:
    write_skill(files={"scripts/no.sh": "# Fail.\necho why >&2; exit 7\n"})

    ran = skillpouch("call", "no", "--timings")

    assert (ran.code, ran.out, ran.err.splitlines()[:2]) == (1, "", ["why", "exit code 7"])
    assert lines_of(ran.err)[-1][0] == "in all"
