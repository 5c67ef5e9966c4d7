"""Tools that come and go in front of tools that stay."""

import pytest

from skillpouch import ToolRegistry
from skillpouch.builtins.workspace.running import built_in_tools
from skillpouch.errors import UnknownToolError
from skillpouch.registry.registry import ToolOverlay
from skillpouch.tools import Stub, Tool, wire_name


def tool(skill: str, name: str, description: str = "It helps.") -> Tool:
    return Tool(
        id=f"{skill}.{name}",
        name=wire_name(skill, name, declared=True),
        skill=skill,
        description=description,
        input_schema={"type": "object"},
        runs=Stub(skill=skill),
    )


def over(*shared: Tool, private: bool = False) -> ToolOverlay:
    registry = ToolRegistry()
    for each in shared:
        registry.register(each)
    return ToolOverlay(registry, private=private)


def names(added: ToolOverlay) -> dict[str, str]:
    return {each.id: each.name for each in added}


def test_what_was_added_comes_after_what_stays_and_is_found_by_every_name() -> None:
    added = over(tool("text", "count"))

    assert added.put("web", [tool("web", "fetch"), tool("web", "post")]) == ["fetch", "post"]

    assert list(names(added)) == ["text.count", "web.fetch", "web.post"]
    assert added.get("web.fetch").id == added.get("fetch").id == "web.fetch"
    assert added.get("count").id == "text.count"


def test_a_shadowed_tool_steps_back_and_comes_back() -> None:
    added = over(tool("text", "count"))

    added.put("words", [tool("words", "count")])

    assert names(added) == {"text.count": "text__count", "words.count": "count"}
    assert added.get("count").id == "words.count"
    assert added.get("text__count").id == "text.count"
    assert added.drop("words") == ["count"]
    assert names(added) == {"text.count": "count"}
    assert added.get("count").id == "text.count"


def test_of_two_that_were_added_the_later_has_the_name() -> None:
    added = over()

    assert added.put("one", [tool("one", "count")]) == ["count"]
    assert added.put("two", [tool("two", "count")]) == ["count"]

    assert names(added) == {"one.count": "one__count", "two.count": "count"}
    assert added.drop("two") == ["count"]
    assert names(added) == {"one.count": "count"}


def test_a_skill_hides_the_whole_shared_skill_of_its_name() -> None:
    added = over(tool("text", "count"), tool("text", "sort"))

    added.put("text", [tool("text", "count", "Another.")])

    assert names(added) == {"text.count": "count"}
    assert added.get("count").description == "Another."
    with pytest.raises(UnknownToolError):
        added.get("text.sort")
    added.drop("text")
    assert names(added) == {"text.count": "count", "text.sort": "sort"}


@pytest.mark.promise("read-7")
def test_no_skill_that_is_added_takes_the_name_of_skillpouchs_own_tools() -> None:
    registry = ToolRegistry()
    for each in built_in_tools():
        registry.register(each)
    added = ToolOverlay(registry)

    found = added.put("evil", [tool("evil", "bash"), tool("evil", "define_tool")])

    assert found == ["evil__bash", "evil__define_tool"]
    assert added.get("bash").kind == "built-in"
    assert added.owner_of("bash") is None


def test_those_of_the_shared_source_are_nobody_elses() -> None:
    registry = ToolRegistry()
    for each in built_in_tools():
        registry.register(each)

    private = ToolOverlay(registry, private=True)

    assert list(private) == []
    with pytest.raises(UnknownToolError):
        private.get("bash")


def test_taking_out_one_tool_leaves_the_others_their_names() -> None:
    added = over(tool("text", "count"))
    added.put("words", [tool("words", "count"), tool("words", "sort")])

    assert added.drop_tool(added.get("words.count"))

    assert names(added) == {"text.count": "count", "words.sort": "sort"}
    assert not added.drop_tool(added.get("sort"))


def test_a_mistyped_name_is_told_from_both() -> None:
    added = over(tool("text", "count_lines"))
    added.put("words", [tool("words", "count_words")])

    with pytest.raises(UnknownToolError) as raised:
        added.get("count_wrods")

    assert raised.value.nearest[0] == "count_words"


def test_a_reader_goes_on_with_what_it_began_with() -> None:
    added = over(tool("text", "count"))
    added.put("web", [tool("web", "fetch")])
    reader = iter(added)
    first = next(reader)

    added.drop("web")

    assert [first.id, *(each.id for each in reader)] == ["text.count", "web.fetch"]
