"""Names → tools: look-ups, collisions, names of built-ins, and what is on record about them."""

import re
import threading
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillpouch import ToolRegistry
from skillpouch.errors import AmbiguousNameError, UnknownToolError
from skillpouch.tools import Stub, Tool, hashed_wire_name, qualified_wire_name, wire_name

LEGAL = re.compile(r"[a-zA-Z0-9_-]{1,64}")
LONG = "a" * 60
BUILT_INS = ["bash", "read", "write", "edit", "grep", "glob", "ls"]


def tool(skill: str, name: str, *, declared: bool = True) -> Tool:
    return Tool(
        id=f"{skill}.{name}",
        name=wire_name(skill, name, declared=declared),
        skill=skill,
        description="It helps.",
        input_schema={"type": "object"},
        runs=Stub(skill=skill),
        origin=f"/{skill}/SKILL.md",
    )


def registry_of(*tools: Tool) -> ToolRegistry:
    registry = ToolRegistry()
    for each in tools:
        registry.register(each)
    return registry


def names(registry: ToolRegistry) -> dict[str, str]:
    return {each.id: each.name for each in registry}


@pytest.mark.parametrize("name", ["pdf.parse", "pdf__parse", "parse"])
def test_a_tool_is_found_by_id_wire_name_and_bare_name(name: str) -> None:
    registry = registry_of(tool("pdf", "parse", declared=False), tool("web", "fetch"))

    assert registry.get(name).id == "pdf.parse"
    assert name in registry


def test_an_unknown_name_raises_and_names_the_nearest() -> None:
    registry = registry_of(tool("pdf", "parse"))

    with pytest.raises(UnknownToolError) as caught:
        registry.get("prase")

    assert (caught.value.nearest, caught.value.code) == (["parse"], "unknown_tool")
    assert "prase" not in registry


def test_a_bare_name_of_two_discovered_tools_is_ambiguous_and_names_both() -> None:
    registry = registry_of(tool("a", "run", declared=False), tool("b", "run", declared=False))

    with pytest.raises(AmbiguousNameError) as caught:
        registry.get("run")

    assert caught.value.candidates == ("a.run", "b.run")


def test_the_last_loaded_keeps_the_wire_name_and_the_other_is_skill_and_tool() -> None:
    registry = registry_of(tool("a", "search"), tool("b", "search"))

    assert names(registry) == {"a.search": "a__search", "b.search": "search"}
    assert registry.get("search").id == "b.search"
    assert registry.get("a__search").id == "a.search"
    assert registry.get("b__search").id == "b.search"
    [problem] = registry.problems()
    assert (problem.severity, problem.path) == ("warning", "/a/SKILL.md")
    assert "a.search" in problem.message
    assert "b.search" in problem.message


@pytest.mark.parametrize("order", list(permutations([0, 1, 2])))
def test_rank_decides_not_the_order_of_registering(order: tuple[int, ...]) -> None:
    tools = [tool("a", "search"), tool("b", "search"), tool("c", "search")]
    registry = ToolRegistry()
    for rank in order:
        registry.register(tools[rank], rank=rank)

    assert registry.get("search").id == "c.search"
    assert sorted(names(registry).values()) == ["a__search", "b__search", "search"]


@pytest.mark.parametrize("name", BUILT_INS)
def test_a_built_in_name_is_never_given_away(name: str) -> None:
    registry = registry_of(tool("sly", name))

    assert names(registry) == {f"sly.{name}": f"sly__{name}"}
    assert registry.get(f"sly__{name}").id == f"sly.{name}"
    [problem] = registry.problems()
    assert (problem.severity, problem.path) == ("warning", "/sly/SKILL.md")


@pytest.mark.parametrize("name", BUILT_INS)
def test_a_look_up_of_a_built_in_name_never_finds_a_skills_tool(name: str) -> None:
    registry = registry_of(tool("sly", name))

    with pytest.raises(UnknownToolError):
        registry.get(name)


def test_removing_a_tool_gives_the_name_back() -> None:
    registry = registry_of(tool("a", "search"), tool("b", "search"))

    assert registry.remove("b.search")
    assert names(registry) == {"a.search": "search"}
    assert registry.problems() == []
    assert not registry.remove("b.search")


def test_registering_an_id_again_replaces_it() -> None:
    registry = registry_of(tool("a", "x"), tool("a", "x"))

    assert (len(registry), names(registry), registry.problems()) == (1, {"a.x": "x"}, [])


def test_a_tool_that_is_called_like_the_fallback_of_another_keeps_its_name() -> None:
    registry = registry_of(tool("a", "read"), tool("b", "a__read"))

    assert names(registry)["b.a__read"] == "a__read"
    assert registry.get("a__read").id == "b.a__read"
    assert registry.get(names(registry)["a.read"]).id == "a.read"


@pytest.mark.parametrize(
    "tools",
    [
        # Every name that the first could fall back to is wanted by another.
        [
            tool("a", "read"),
            tool("b", qualified_wire_name("a", "read")),
            tool("b", hashed_wire_name("a", "read")),
        ],
        # The same, one step further, and for a name that leaves no room for another character.
        [
            tool(LONG, "read"),
            *(tool("b", hashed_wire_name(LONG, "read") + tail) for tail in ("", "_", "__")),
            tool("b", qualified_wire_name(LONG, "read")[:63] + "_"),
        ],
        [
            tool("a", "read"),
            tool("b", qualified_wire_name("a", "read")),
            *(tool("b", hashed_wire_name("a", "read") + tail) for tail in ("", "_", "__", "_2")),
        ],
        # Two different tools that fall back to the same name.
        [tool("p:x", "t"), tool("q", "t"), tool("p", "x__t"), tool("q", "x__t")],
        # A discovered tool, a sub-command and a declared name that all want one name.
        [
            tool("p:x", "t", declared=False),
            tool("p", "x.t", declared=False),
            tool("q", "p__x__t"),
        ],
        [tool("a", name) for name in BUILT_INS] + [tool("b", f"a__{name}") for name in BUILT_INS],
    ],
)
def test_wire_names_stay_unique_and_lead_back_to_their_tool_however_tools_are_named(
    tools: list[Tool],
) -> None:
    for order in (tools, tools[::-1]):
        registry = registry_of(*order)

        wires = names(registry)

        assert len(set(wires.values())) == len(tools)
        assert {tool_id: registry.get(wire).id for tool_id, wire in wires.items()} == {
            tool_id: tool_id for tool_id in wires
        }
        assert all(LEGAL.fullmatch(wire) for wire in wires.values())


def test_an_id_counts_before_another_tools_wire_name() -> None:
    registry = registry_of(tool("a", "b"), tool("x", "a.b"))

    assert registry.get("a.b").id == "a.b"


def test_tools_come_in_the_order_in_which_they_were_first_registered() -> None:
    registry = registry_of(tool("a", "x"), tool("b", "y"), tool("c", "z"), tool("a", "x"))

    assert [each.id for each in registry] == ["a.x", "b.y", "c.z"]


def test_a_tool_that_is_replaced_under_another_wire_name_gives_the_old_one_back() -> None:
    registry = registry_of(tool("b", "search"), tool("a", "search"))
    renamed = replace(tool("a", "search"), name="find")

    registry.register(renamed)

    assert names(registry) == {"b.search": "search", "a.search": "find"}
    assert (registry.get("search").id, registry.get("find").id) == ("b.search", "a.search")


def test_a_fallback_that_somebody_wanted_is_given_back_when_he_leaves() -> None:
    registry = registry_of(tool("a", "read"))
    assert names(registry) == {"a.read": "a__read"}

    registry.register(tool("b", "a__read"))
    assert registry.get("a__read").id == "b.a__read"
    assert registry.get(names(registry)["a.read"]).id == "a.read"

    registry.remove("b.a__read")
    assert names(registry) == {"a.read": "a__read"}


SOME = [
    *(tool(skill, name) for skill in ("a", "b", "c") for name in ("read", "find", "a__find")),
    *(tool(skill, "find", declared=False) for skill in ("d", "p:a", "p")),
    tool("p", "a__find"),
    tool("x", hashed_wire_name("a", "find")),
]


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.sampled_from(SOME)), max_size=40))
def test_whatever_was_registered_and_removed_names_are_unique_and_lead_back(
    steps: list[tuple[bool, Tool]],
) -> None:
    registry = ToolRegistry()
    there: dict[str, Tool] = {}
    for adds, each in steps:
        if adds:
            registry.register(each)
            there[each.id] = each
        else:
            assert registry.remove(each.id) == (there.pop(each.id, None) is not None)
        wires = names(registry)
        assert list(wires) == list(there)
        assert len(set(wires.values())) == len(wires)
        assert {wire: registry.get(wire).id for wire in wires.values()} == {
            wire: tool_id for tool_id, wire in wires.items()
        }


def test_readers_find_every_tool_while_others_come_go_and_are_replaced() -> None:
    stable = [tool(f"s{number}", "find") for number in range(50)]
    registry = registry_of(*stable)
    done = threading.Event()
    failures: list[BaseException] = []

    def read() -> None:
        try:
            while not done.is_set():
                for each in stable:
                    assert registry.get(each.id).id == each.id
                    assert registry.get(f"{each.skill}__find").id == each.id
                assert len({each.name for each in registry}) >= len(stable)
                registry.problems()
        except BaseException as error:  # noqa: BLE001 - told to the test
            failures.append(error)

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    for number in range(2_000):
        registry.register(stable[number % 50], rank=number % 50 + 1)
        registry.register(tool(f"t{number % 7}", "find"), rank=0)
        registry.remove(f"t{number % 5}.find")
    done.set()
    for reader in readers:
        reader.join()

    assert failures == []


def test_a_wrong_name_among_very_many_still_names_the_nearest() -> None:
    registry = registry_of(*(tool(f"skill{number}", f"tool{number}") for number in range(5_000)))

    with pytest.raises(UnknownToolError) as caught:
        registry.get("tool4999x")

    assert caught.value.nearest[0] == "tool4999"
