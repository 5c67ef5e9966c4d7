"""Commands and groups made with click's decorators."""

from textwrap import dedent
from typing import Any

import pytest
from click.testing import CliRunner

from skillpouch.signatures.argv import ArgvArgument, FixedWord, words
from skillpouch.signatures.python.reading import read_python
from skillpouch.signatures.signature import Interface, JsonSchema
from skillpouch.signatures.usage_lines import argument_list

GREET = '''
    import click

    @click.command()
    @click.argument("name")
    @click.option("--count", "-c", default=1, help="How often.")
    @click.option("--shout/--no-shout", default=False)
    @click.option("-t", "--tag", "tags", multiple=True)
    @click.option("--kind", type=click.Choice(["a", "b"]), required=True)
    @click.option("--size", type=click.IntRange(1, 9))
    @click.option("--point", nargs=2, type=float)
    @click.option("-v", "--verbose", count=True)
    @click.option("--dry-run", is_flag=True)
    @click.version_option("1")
    def greet(name, count, shout, tags, kind, size, point, verbose, dry_run):
        """Greet somebody.

        Politely.
        """
        click.echo(repr((name, count, shout, tags, kind, size, point, verbose, dry_run)))

    if __name__ == "__main__":
        greet()
'''


def schema_of(text: str) -> JsonSchema:
    signature = read_python(dedent(text))
    assert signature.uncertain == ""
    assert signature.interface.input_schema is not None
    return signature.interface.input_schema


def test_a_command_is_read_from_its_decorators() -> None:
    signature = read_python(dedent(GREET))

    assert signature.reader == "click"
    assert signature.interface == Interface(
        convention="argv",
        description="Greet somebody.",
        input_schema={
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "count": {"type": "integer", "description": "How often.", "default": 1},
                "shout": {"type": "boolean", "default": False},
                "tags": {"type": "array", "items": {"type": "string"}},
                "kind": {"type": "string", "enum": ["a", "b"]},
                "size": {"type": "integer", "minimum": 1, "maximum": 9},
                "point": {
                    "type": "array",
                    "items": {"type": "number"},
                    "minItems": 2,
                    "maxItems": 2,
                },
                "verbose": {"type": "integer", "minimum": 0},
                "dry_run": {"type": "boolean"},
            },
            "additionalProperties": False,
            "required": ["name", "kind"],
        },
        plan=(
            ArgvArgument(name="name", after_dashes=True),
            ArgvArgument(name="count", flag="--count", others=("-c",)),
            ArgvArgument(
                name="shout", flag="--shout", action="boolean_optional", off_flag="--no-shout"
            ),
            ArgvArgument(name="tags", flag="--tag", action="append", others=("-t",)),
            ArgvArgument(name="kind", flag="--kind"),
            ArgvArgument(name="size", flag="--size"),
            ArgvArgument(name="point", flag="--point", nargs=2),
            ArgvArgument(name="verbose", flag="--verbose", action="count", others=("-v",)),
            ArgvArgument(name="dry_run", flag="--dry-run", action="store_true"),
        ),
    )


def test_click_itself_understands_the_words_of_the_plan() -> None:
    given = {
        "name": "-Ada",
        "count": 2,
        "shout": True,
        "tags": ["x", "-y"],
        "kind": "b",
        "size": 3,
        "point": [1, -2.5],
        "verbose": 2,
        "dry_run": True,
    }
    names: dict[str, Any] = {"__name__": "script"}
    exec(dedent(GREET), names)
    plan = read_python(dedent(GREET)).interface.plan
    assert plan is not None

    result = CliRunner().invoke(names["greet"], words(plan, given))

    assert result.output == ("('-Ada', 2, True, ('x', '-y'), 'b', 3, (1.0, -2.5), 2, True)\n")


def test_a_group_has_an_interface_per_command() -> None:
    text = '''
        import click

        @click.group()
        @click.option("--home", type=click.Path())
        def cli(home):
            """Keep notes."""

        @cli.command()
        @click.argument("words", nargs=-1, required=True)
        def add_note(words):
            """Add a note."""

        @cli.command("show", help="Show one.")
        @click.argument("number", type=int, default=1)
        def show_cmd(number): ...

        @click.command()
        def sync_cmd(): ...

        cli.add_command(sync_cmd)

        if __name__ == "__main__":
            cli()
    '''

    signature = read_python(dedent(text))

    assert signature.interface == Interface(convention="argv", description="Keep notes.")
    assert list(signature.commands) == ["add-note", "show", "sync"]
    assert signature.commands["show"].plan == (
        ArgvArgument(name="home", flag="--home"),
        FixedWord(text="show"),
        ArgvArgument(name="number", nargs="?", after_dashes=True),
    )
    assert signature.commands["add-note"].description == "Add a note."


@pytest.mark.parametrize(
    ("option", "name", "schema"),
    [
        ('"--a-b"', "a_b", {"type": "string"}),
        ('"-x"', "x", {"type": "string"}),
        ('"--Loud"', "loud", {"type": "string"}),
        ('"--x", "-y", "named"', "named", {"type": "string"}),
        ('"--x", type=bool', "x", {"type": "boolean"}),
        ('"--x", default=1.5', "x", {"type": "number", "default": 1.5}),
        ('"--x", flag_value="up"', "x", {"type": "boolean"}),
        (
            '"--x", type=click.FloatRange(min=0, min_open=True)',
            "x",
            {"type": "number", "exclusiveMinimum": 0},
        ),
        ('"--x", type=custom()', "x", {"type": "string"}),
    ],
)
def test_names_and_types_follow_click(option: str, name: str, schema: dict[str, Any]) -> None:
    read = schema_of(f"import click\n@click.command()\n@click.option({option})\ndef main(): ...")

    assert read["properties"] == {name: schema}


def test_an_option_that_would_ask_is_required() -> None:
    text = 'import click\n@click.command()\n@click.option("--x", prompt=True)\ndef main(): ...'

    assert schema_of(text)["required"] == ["x"]


def test_a_decorator_with_a_name_of_its_own_is_read() -> None:
    text = """
        import click
        verbose = click.option("--verbose", is_flag=True)
        @click.command()
        @verbose
        @click.pass_context
        def main(context, verbose): ...
    """

    assert schema_of(text)["properties"] == {"verbose": {"type": "boolean"}}


@pytest.mark.parametrize(
    ("decorator", "reason"),
    [
        ("@click.option(*names)", "an option is declared with values known only at run time"),
        ("@click.option(name)", "the name of an option is computed at run time"),
        ("@elsewhere.common", "the decorator elsewhere.common may add options"),
    ],
)
def test_what_is_not_literal_is_uncertain(decorator: str, reason: str) -> None:
    text = f"import click, elsewhere\n@click.command()\n{decorator}\ndef main(): ..."

    signature = read_python(text)

    assert (signature.uncertain, signature.uncertain_line) == (reason, 3)
    assert signature.interface == argument_list("")


def test_click_only_used_for_output_is_no_command_line() -> None:
    assert read_python("import click\nclick.echo('hi')").reader == "comments"


@pytest.mark.parametrize(
    ("body", "runs_alone"),
    [
        ("    click.echo('all')", True),
        ("    if ctx.invoked_subcommand is None:\n        click.echo(ctx.get_help())", False),
    ],
)
def test_a_group_that_works_without_a_command_is_an_interface_as_well(
    body: str, runs_alone: bool
) -> None:
    signature = read_python(
        "import click\n"
        "@click.group(invoke_without_command=True)\n"
        "@click.pass_context\n"
        f"def cli(ctx):\n{body}\n"
        "@cli.command()\n@click.argument('name')\ndef add(name): ...\n"
        "cli()\n"
    )

    assert signature.runs_alone is runs_alone
    assert list(signature.commands) == ["add"]
    assert (signature.interface.plan == ()) is runs_alone
