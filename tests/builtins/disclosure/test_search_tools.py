"""`search_tools`: the right tool among hundreds."""

from collections.abc import Callable
from pathlib import Path

from skillpouch import SkillManager
from skillpouch.builtins.disclosure.tools import Ranking

WriteSkill = Callable[..., Path]

EXAMPLES = Path(__file__).parents[3] / "examples" / "skills"


def found(manager: SkillManager, query: str, limit: int = 3) -> list[str]:
    result = manager.call("search_tools", {"query": query, "limit": limit})
    return [tool["id"] for tool in result.structured["tools"]]


def test_words_about_a_job_find_the_tool_for_it() -> None:
    manager = SkillManager(EXAMPLES)

    assert found(manager, "multiply two numbers")[0] == "calculator.multiply"
    assert found(manager, "make a URL slug")[0] == "text-tools.slugify"
    assert found(manager, "get text out of a PDF")[0].startswith("pdf-extractor.")
    assert "weather.weather-forecast" in found(manager, "forecasting")


def test_a_tool_is_found_with_all_that_a_call_needs(write_skill: WriteSkill) -> None:
    script = '"""Rotate pages."""\ndef main(angle: int, path: str):\n    return path\n'
    home = write_skill("pdf", files={"scripts/rotate.py": script})
    manager = SkillManager(home.parent)

    result = manager.call("search_tools", {"query": "rotate"})

    tool = manager.get_tool("pdf.rotate")
    assert result.content.splitlines()[0] == (
        '<tool name="pdf__rotate" skill="pdf" takes="angle, path">Rotate pages.</tool>'
    )
    assert result.structured["tools"][0] == {
        "name": "pdf__rotate",
        "id": "pdf.rotate",
        "skill": "pdf",
        "description": "Rotate pages.",
        "input_schema": tool.input_schema,
        "ready": True,
        "missing": [],
    }


def test_a_skill_without_tools_is_found_too(write_skill: WriteSkill) -> None:
    home = write_skill("tone", "name: tone\ndescription: How to write friendly letters.\n")

    result = SkillManager(home.parent).call("search_tools", {"query": "letter"})

    assert result.structured == {"skills": ["tone"], "tools": [], "total": 1}


def test_words_that_nothing_is_about_find_nothing(write_skill: WriteSkill) -> None:
    home = write_skill("pdf")

    result = SkillManager(home.parent).call("search_tools", {"query": "zzz ???"})

    assert (result.outcome, result.structured["total"]) == ("ok", 0)
    assert result.content == "[nothing was found; try other words]"


def test_one_of_five_hundred_tools_is_found_by_its_words(write_skill: WriteSkill) -> None:
    scripts = {
        f"scripts/job{number}.sh": f"#!/bin/bash\n# Paint wall number {number}\necho\n"
        for number in range(500)
    }
    scripts["scripts/kettle.sh"] = "#!/bin/bash\n# Boil water for tea\necho\n"
    home = write_skill("controls", files=scripts)
    manager = SkillManager(home.parent)

    result = manager.call("search_tools", {"query": "boiling water", "limit": 1})

    assert [tool["id"] for tool in result.structured["tools"]] == ["controls.kettle"]


def test_rare_words_count_more_and_equals_stay_in_order() -> None:
    texts: list[dict[str, float]] = [
        {"read a file": 1.0},
        {"read a table": 1.0},
        {"read a file": 1.0},
    ]

    assert Ranking(texts).best("read table") == [1, 0, 2]
    assert Ranking(texts).best("parseFile") == [0, 2]
    assert Ranking(texts).best("") == []
    assert Ranking([]).best("read") == []
