"""Which commands words find."""

import pytest

from skillpouch.shell.own_commands import discover
from skillpouch.shell.toolbox import ToolDef


def tool(name: str, description: str = "", *parameters: str) -> ToolDef:
    properties = {each: {"type": "string"} for each in parameters}
    return ToolDef(name, description).with_schema({"properties": properties})


TOOLS = [
    tool("mail.send", "Send a message", "to", "subject", "body"),
    tool("mail.list", "List the messages of a folder", "folder"),
    tool("get_user", "Fetch user by ID", "id"),
    tool("listOrders", "List orders for user", "user_id"),
    tool("weather.get", "Tell how warm it is", "city"),
    tool("übersetzen", "Übersetze einen Text"),
]


@pytest.mark.parametrize(
    ("words", "best"),
    [
        ("send mail", "mail.send"),
        ("SEND a Message", "mail.send"),
        ("fetch user by id", "get_user"),
        ("user orders", "listOrders"),
        ("order", "listOrders"),
        ("city", "weather.get"),
        ("temperature in a city", "weather.get"),
        ("wether", "weather.get"),
        ("weath", "weather.get"),
        ("übersetzen", "übersetzen"),
        ("folder", "mail.list"),
    ],
)
def test_the_tool_that_is_meant_comes_first(words: str, best: str) -> None:
    assert [each.name for each in discover(words, TOOLS)][:1] == [best]
    assert discover(words.split(), TOOLS) == discover(words, TOOLS)


def test_words_that_describe_nothing_find_nothing() -> None:
    assert discover("quantum zzzzzz", TOOLS) == []


def test_without_words_the_first_tools_are_shown() -> None:
    assert discover("", TOOLS, most=2) == TOOLS[:2]
    assert discover("- / .", TOOLS, most=2) == TOOLS[:2]


def test_a_rare_word_counts_more_than_one_that_all_tools_have() -> None:
    tools = [tool(f"shop.list_{n}", "List things") for n in range(50)]
    tools.append(tool("archive", "Keep an invoice"))

    assert discover("list invoice", tools)[0].name == "archive"


def test_tools_that_fit_alike_come_by_name() -> None:
    tools = [tool(name, "Count sheep") for name in ("c", "a", "b")]

    assert [each.name for each in discover("sheep", tools)] == ["a", "b", "c"]


def test_no_more_are_returned_than_asked_for() -> None:
    tools = [tool(f"t{number:04}", "Count sheep") for number in range(5_000)]

    assert [each.name for each in discover("sheep", tools, most=3)] == ["t0000", "t0001", "t0002"]


def test_a_megabyte_of_words_is_no_trouble() -> None:
    assert discover("x" * 10**6, TOOLS) == []
    assert discover("mail " * 200_000, TOOLS)[0].name == "mail.list"
