"""Functions and apps made with typer."""

from textwrap import dedent

from skillpouch.signatures.argv import ArgvArgument, FixedWord
from skillpouch.signatures.python.reading import read_python
from skillpouch.signatures.signature import Interface


def test_a_function_that_typer_runs_is_read_from_its_annotations() -> None:
    text = '''
        import enum, typer
        from pathlib import Path
        from typing import Annotated, Optional

        class Kind(str, enum.Enum):
            A = "a"
            B = "b"

        def main(
            source: Path,
            extra: Optional[list[str]] = None,
            count: int = 1,
            out_dir: Annotated[Path, typer.Option("--out", "-o", help="Where to")] = Path("."),
            fast: bool = False,
            force: bool = typer.Option(False, "--force"),
            kind: Kind = Kind.A,
            tags: list[str] = typer.Option([], help="Tags"),
            token: str = typer.Option(...),
            target: str = typer.Argument("here"),
            verbose: Annotated[int, typer.Option("-v", count=True)] = 0,
        ):
            """Copy things."""

        if __name__ == "__main__":
            typer.run(main)
    '''

    signature = read_python(dedent(text))

    assert signature.reader == "typer"
    assert signature.interface == Interface(
        convention="argv",
        description="Copy things.",
        input_schema={
            "type": "object",
            "properties": {
                "source": {"type": "string"},
                "extra": {"type": "array", "items": {"type": "string"}},
                "count": {"type": "integer", "default": 1},
                "out_dir": {"type": "string", "description": "Where to"},
                "fast": {"type": "boolean", "default": False},
                "force": {"type": "boolean", "default": False},
                "kind": {"type": "string", "enum": ["a", "b"], "default": "a"},
                "tags": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Tags",
                    "default": [],
                },
                "token": {"type": "string"},
                "target": {"type": "string", "default": "here"},
                "verbose": {"type": "integer", "minimum": 0, "default": 0},
            },
            "additionalProperties": False,
            "required": ["source", "token"],
        },
        plan=(
            ArgvArgument(name="source", after_dashes=True),
            ArgvArgument(name="extra", flag="--extra", action="append"),
            ArgvArgument(name="count", flag="--count"),
            ArgvArgument(name="out_dir", flag="--out", others=("-o",)),
            ArgvArgument(
                name="fast", flag="--fast", action="boolean_optional", off_flag="--no-fast"
            ),
            ArgvArgument(name="force", flag="--force", action="store_true"),
            ArgvArgument(name="kind", flag="--kind"),
            ArgvArgument(name="tags", flag="--tags", action="append"),
            ArgvArgument(name="token", flag="--token"),
            ArgvArgument(name="target", nargs="?", after_dashes=True),
            ArgvArgument(name="verbose", flag="-v", action="count"),
        ),
    )


def test_an_app_with_one_command_needs_no_word_for_it() -> None:
    text = """
        import typer
        app = typer.Typer()

        @app.command()
        def fetch(url: str): ...

        if __name__ == "__main__":
            app()
    """

    signature = read_python(dedent(text))

    assert signature.commands == {}
    assert signature.interface.plan == (ArgvArgument(name="url", after_dashes=True),)


def test_an_app_with_several_commands_has_an_interface_each() -> None:
    text = '''
        import typer
        app = typer.Typer(help="Users and more.")
        users = typer.Typer()
        app.add_typer(users, name="users")

        @app.callback()
        def common(debug: bool = False): ...

        @app.command("list")
        def show(context: typer.Context): ...

        @users.command()
        def add_one(name: str):
            """Add a user."""

        app()
    '''

    signature = read_python(dedent(text))

    assert signature.interface == Interface(convention="argv", description="Users and more.")
    assert list(signature.commands) == ["list", "users.add-one"]
    assert signature.commands["users.add-one"].description == "Add a user."
    assert signature.commands["users.add-one"].plan == (
        ArgvArgument(
            name="debug", flag="--debug", action="boolean_optional", off_flag="--no-debug"
        ),
        FixedWord(text="users"),
        FixedWord(text="add-one"),
        ArgvArgument(name="name", after_dashes=True),
    )


def test_an_app_from_another_module_is_uncertain() -> None:
    text = """
        import typer
        from elsewhere import users
        app = typer.Typer()
        app.add_typer(users, name="users")
        app()
    """

    signature = read_python(dedent(text))

    assert (signature.uncertain, signature.uncertain_line) == (
        "a command comes from another module",
        5,
    )
