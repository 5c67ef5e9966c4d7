"""Warm calls by the oldest Python that a skill may ask for: it lacks what newer ones have."""

from pathlib import Path

import pytest

from skillpouch.execution.engine import Engine
from skillpouch.provision.interpreters import homes_of
from skillpouch.provision.packages.recipe import find_python
from tests.execution.warm_calls import Skill

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]

LOOKS = """
import sys
print(*sys.version_info[:2], sep=".")
print(sys.argv, getattr(sys, "orig_argv", None), sorted(globals()))
"""


async def test_the_oldest_python_is_warm_and_gives_what_it_gives_afresh(tmp_path: Path) -> None:
    python = await find_python("==3.9.*", "on")
    if python is None:
        pytest.skip("no Python 3.9 here")
    (tmp_path / "workspace").mkdir()
    home, *_ = (*homes_of(python.executable), None)
    skill = Skill(
        home=tmp_path / "skill",
        workspace=tmp_path / "workspace",
        python=python.executable,
        interpreter=home,
    )

    async with Engine() as engine:
        call = skill.caller(engine)
        cold = await call(LOOKS, "a", "b 2", warm=False)
        ended = [await call(LOOKS, "a", "b 2") for _ in range(5)]

    assert cold.stdout.text.startswith("3.9\n")
    assert {(each.warm, each.cold_because) for each in ended} == {(True, "")}
    assert {(each.stdout.text, each.stderr.text) for each in ended} == {(cold.stdout.text, "")}
