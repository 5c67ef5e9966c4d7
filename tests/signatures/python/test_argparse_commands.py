"""Sub-commands and groups: one interface each, and what one argument means for another."""

from textwrap import dedent

import jsonschema_rs

from skillpouch.arguments import value_problems
from skillpouch.signatures.argv import ArgvArgument, FixedWord
from skillpouch.signatures.python.reading import read_python
from skillpouch.signatures.signature import Interface, JsonSchema
from skillpouch.tools import model_schema

TODO = '''
    """Keep a list of things to do."""
    import argparse

    def main():
        parser = argparse.ArgumentParser()
        parser.add_argument("--file", default="todo.json", help="Where the list is")
        commands = parser.add_subparsers(dest="command", required=True)
        add = commands.add_parser("add", help="Add a thing", aliases=["a"])
        add.add_argument("text")
        done = commands.add_parser("done", description="Mark a thing as done")
        done.add_argument("number", type=int)
        done.add_argument("--file", choices=["a", "b"])
        tags = commands.add_parser("tags").add_subparsers(required=True)
        tags.add_parser("list").add_argument("--all", action="store_true")
        parser.parse_args()
    main()
'''


def schema_of(text: str) -> JsonSchema:
    schema = read_python(dedent(text)).interface.input_schema
    assert schema is not None
    return schema


def test_each_sub_command_is_an_interface_of_its_own() -> None:
    commands = read_python(dedent(TODO)).commands

    assert commands["add"] == Interface(
        convention="argv",
        description="Add a thing",
        input_schema={
            "type": "object",
            "properties": {
                "file": {
                    "type": "string",
                    "description": "Where the list is",
                    "default": "todo.json",
                },
                "text": {"type": "string"},
            },
            "additionalProperties": False,
            "required": ["text"],
        },
        plan=(
            ArgvArgument(name="file", flag="--file"),
            FixedWord(text="add"),
            ArgvArgument(name="text", after_dashes=True),
        ),
    )


def test_aliases_are_not_counted_and_nested_sub_commands_are_joined_by_a_dot() -> None:
    commands = read_python(dedent(TODO)).commands

    assert list(commands) == ["add", "done", "tags.list"]
    assert commands["tags.list"].plan == (
        ArgvArgument(name="file", flag="--file"),
        FixedWord(text="tags"),
        FixedWord(text="list"),
        ArgvArgument(name="all", flag="--all", action="store_true"),
    )


def test_a_name_used_by_both_belongs_to_the_sub_command() -> None:
    done = read_python(dedent(TODO)).commands["done"]

    assert done.description == "Mark a thing as done"
    assert done.plan == (
        FixedWord(text="done"),
        ArgvArgument(name="number", after_dashes=True),
        ArgvArgument(name="file", flag="--file"),
    )


def test_a_script_that_needs_a_sub_command_has_no_interface_of_its_own() -> None:
    interface = read_python(dedent(TODO)).interface

    assert interface == Interface(convention="argv", description="Keep a list of things to do.")


def test_a_script_whose_sub_command_may_be_left_out_keeps_its_own_arguments() -> None:
    text = """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--all", action="store_true")
        commands = parser.add_subparsers()
        commands.add_parser("one")
        parser.parse_args()
    """

    signature = read_python(dedent(text))

    assert signature.interface.plan == (
        ArgvArgument(name="all", flag="--all", action="store_true"),
    )
    assert list(signature.commands) == ["one"]


def test_a_sub_command_made_required_afterwards_is_required() -> None:
    text = """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--all", action="store_true")
        commands = parser.add_subparsers()
        commands.required = True
        commands.add_parser("one")
        parser.parse_args()
    """

    assert read_python(dedent(text)).interface.plan is None


def test_parsers_in_a_loop_and_in_a_dict_are_followed() -> None:
    text = """
        import argparse
        parser = argparse.ArgumentParser()
        commands = parser.add_subparsers(required=True)
        parsers = {}
        for name in ("start", "stop"):
            parsers[name] = commands.add_parser(name, help=f"{name} it")
        for one in commands.choices.values():
            one.add_argument("--force", action="store_true")
        parsers["start"].add_argument("--port", type=int)
        parser.parse_args()
    """

    commands = read_python(dedent(text)).commands

    assert {name: interface.description for name, interface in commands.items()} == {
        "start": "start it",
        "stop": "stop it",
    }
    assert commands["start"].input_schema is not None
    assert list(commands["start"].input_schema["properties"]) == ["force", "port"]


def test_exclusive_values_cannot_be_given_together() -> None:
    schema = schema_of("""
        import argparse
        parser = argparse.ArgumentParser()
        group = parser.add_mutually_exclusive_group()
        group.add_argument("--text")
        group.add_argument("--file")
        parser.parse_args()
    """)

    assert schema["dependentSchemas"] == {"text": {"properties": {"file": False}}}


def test_an_exclusive_switch_that_is_off_excludes_nothing() -> None:
    schema = schema_of("""
        import argparse
        parser = argparse.ArgumentParser()
        group = parser.add_mutually_exclusive_group()
        group.add_argument("--json", action="store_true")
        group.add_argument("--csv", action="store_true")
        parser.parse_args()
    """)

    assert schema["dependentSchemas"] == {
        "json": {
            "if": {"properties": {"json": {"const": False}}},
            "else": {"properties": {"csv": {"const": False}}},
        }
    }


def test_a_required_group_is_exact_where_a_schema_can_say_it() -> None:
    schema = schema_of("""
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("path")
        group = parser.add_mutually_exclusive_group(required=True)
        group.add_argument("--text", help="Given")
        group.add_argument("--file")
        parser.parse_args()
    """)

    assert schema["minProperties"] == 2
    assert schema["properties"]["text"]["description"] == (
        "Given (exactly one of text, file is required)"
    )
    assert not {"anyOf", "oneOf", "allOf"} & schema.keys()


def test_a_required_group_of_switches_is_checked_but_not_shown_as_a_rule() -> None:
    schema = schema_of("""
        import argparse
        parser = argparse.ArgumentParser()
        group = parser.add_mutually_exclusive_group(required=True)
        group.add_argument("--on", action="store_true")
        group.add_argument("--off", action="store_true")
        parser.parse_args()
    """)

    assert not jsonschema_rs.is_valid(schema, {})
    assert not jsonschema_rs.is_valid(schema, {"on": False, "off": False})
    assert not jsonschema_rs.is_valid(schema, {"on": True, "off": True})
    assert jsonschema_rs.is_valid(schema, {"on": True, "off": False})
    assert jsonschema_rs.is_valid(schema, {"off": True})
    assert not {"anyOf", "oneOf", "allOf", "minProperties"} & model_schema(schema).keys()
    assert schema["properties"]["off"]["description"] == "(exactly one of on, off is required)"


def test_two_required_groups_are_both_checked() -> None:
    schema = schema_of("""
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--verbose", action="store_true")
        for pair in (("--a", "--b"), ("--c", "--d")):
            group = parser.add_mutually_exclusive_group(required=True)
            for flag in pair:
                group.add_argument(flag)
        parser.parse_args()
    """)

    assert jsonschema_rs.is_valid(schema, {"a": "x", "d": "y"})
    assert not jsonschema_rs.is_valid(schema, {"a": "x"})
    assert not jsonschema_rs.is_valid(schema, {"d": "y", "verbose": True})
    assert value_problems(schema, {"a": "x"}) == ["one of c, d is required"]


def test_a_switch_that_is_on_says_what_false_means() -> None:
    schema = schema_of("""
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--no-cache", dest="cache", action="store_false", help="Do not cache")
        parser.add_argument("--quick", dest="full", action="store_false")
        parser.add_argument("--colour", action="store_true", help="Use colours")
        parser.add_argument("--plain", dest="colour", action="store_false", help="Use none")
        parser.parse_args()
    """)

    described = {name: one.get("description") for name, one in schema["properties"].items()}
    assert described == {
        "cache": "false passes --no-cache: Do not cache",
        "full": "false passes --quick",
        "colour": "Use colours; false passes --plain: Use none",
    }


def test_a_positional_that_may_be_left_out_needs_the_ones_before_it() -> None:
    schema = schema_of("""
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("source", nargs="?")
        parser.add_argument("target", nargs="?")
        parser.parse_args()
    """)

    assert schema["dependentRequired"] == {"target": ["source"]}


def test_a_switch_and_its_opposite_are_one_property() -> None:
    text = """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--cache", dest="cache", action="store_true", default=True)
        parser.add_argument("--no-cache", dest="cache", action="store_false")
        parser.parse_args()
    """

    interface = read_python(dedent(text)).interface

    assert interface.plan == (
        ArgvArgument(
            name="cache", flag="--cache", action="boolean_optional", off_flag="--no-cache"
        ),
    )
    assert schema_of(text)["properties"] == {"cache": {"type": "boolean", "default": True}}


def test_flags_that_share_a_dest_keep_their_own_names() -> None:
    text = """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--add", dest="mode", action="store_const", const="add")
        parser.add_argument("--remove", dest="mode", action="store_const", const="remove")
        parser.parse_args()
    """

    assert list(schema_of(text)["properties"]) == ["add", "remove"]


def test_set_defaults_changes_what_is_shown() -> None:
    schema = schema_of("""
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--size", type=int, default=1)
        parser.set_defaults(size=2, run=print)
        parser.parse_args()
    """)

    assert schema["properties"] == {"size": {"type": "integer", "default": 2}}


def test_a_positional_that_a_list_before_it_leaves_no_word_is_not_offered() -> None:
    schema = schema_of("""
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("sources", nargs="+")
        parser.add_argument("target", nargs="?")
        parser.add_argument("--to")
        parser.parse_args()
    """)

    assert list(schema["properties"]) == ["sources", "to"]


def test_a_positional_that_is_needed_after_a_list_gets_the_last_word() -> None:
    schema = schema_of("""
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("sources", nargs="+")
        parser.add_argument("target")
        parser.parse_args()
    """)

    assert schema["required"] == ["sources", "target"]
