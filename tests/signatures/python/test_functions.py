"""Scripts that are called as a function: `handler(args)` and a typed `main`."""

from textwrap import dedent
from typing import Any

import pytest

from skillpouch.signatures.python.reading import read_python
from skillpouch.signatures.signature import Interface, JsonSchema


def interface_of(text: str) -> Interface:
    return read_python(dedent(text)).interface


def properties_of(text: str) -> JsonSchema:
    schema = interface_of(text).input_schema
    assert schema is not None
    return dict(schema["properties"])


def test_a_handler_is_read_from_the_keys_it_takes() -> None:
    interface = interface_of('''
        def handler(args):
            """Count the words of a text."""
            folder = args.get("__workDir")
            if "unit" in args and args["unit"] == "lines":
                return args["text"].count("\\n")
            return len(args["text"].split()) * args.get("factor", 1)
    ''')

    assert interface == Interface(
        convention="handler",
        description="Count the words of a text.",
        input_schema={
            "type": "object",
            "properties": {
                "text": {},
                "unit": {},
                "factor": {"type": "integer", "default": 1},
            },
            "additionalProperties": False,
            "required": ["text"],
        },
    )


@pytest.mark.parametrize(
    "use", ["return args", "for key in args: pass", "run(**args)", "args['x'] = 1", "args = {}"]
)
def test_a_handler_that_uses_its_arguments_whole_is_untyped(use: str) -> None:
    text = f"def handler(args):\n    path = args['path']\n    {use}\n"

    assert interface_of(text) == Interface(convention="handler")


def test_a_handler_is_typed_by_its_typed_dict() -> None:
    interface = interface_of('''
        from typing import Literal, NotRequired, TypedDict

        class Arguments(TypedDict):
            path: str
            unit: NotRequired[Literal["words", "lines"]]

        async def handler(args: Arguments) -> dict:
            """Count.

            Args:
                path: The file.
            """
            return await count(args)
    ''')

    assert interface == Interface(
        convention="handler",
        description="Count.",
        input_schema={
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The file."},
                "unit": {"type": "string", "enum": ["words", "lines"]},
            },
            "required": ["path"],
            "additionalProperties": False,
        },
    )


GOOGLE = """
    Args:
        path (str): The file.
        depth (int, optional): How deep. Defaults to 3.
        tags (list[str]): Names.
"""
NUMPY = """
    Parameters
    ----------
    path : str
        The file.
    depth : int, optional
        How deep. Defaults to 3.
    tags : list[str]
        Names.
"""
SPHINX = """
    :param path: The file.
    :type path: str
    :param int? depth: How deep. Defaults to 3.
    :param list[str] tags: Names.
"""


@pytest.mark.parametrize("section", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_a_handler_is_typed_by_its_docstring(section: str) -> None:
    text = f'def handler(args):\n    """Walk a tree.\n{section}    """\n    return walk(args)\n'

    schema = interface_of(text).input_schema

    assert schema == {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "The file."},
            "depth": {"type": "integer", "description": "How deep. Defaults to 3."},
            "tags": {"type": "array", "items": {"type": "string"}, "description": "Names."},
        },
        "additionalProperties": False,
        "required": ["path", "tags"],
    }


@pytest.mark.parametrize(
    "text",
    [
        "def handler(signum, frame): ...",
        "import argparse\ndef handler(args):\n    print(args.path)\n",
        "class handler: ...",
        "def handler(): ...",
    ],
)
def test_other_things_called_handler_are_none(text: str) -> None:
    assert interface_of(text).convention == "stdin"


def test_main_is_typed_by_its_annotations_and_docstring() -> None:
    interface = interface_of('''
        from dataclasses import dataclass
        from pathlib import Path

        @dataclass
        class Size:
            width: int
            height: int = 1

        def main(path: Path, size: Size, *, mode="fast", limit: int | None = None):
            """Process a file and return results.

            Args:
                path: What to read.
                mode (str): How.
            """
    ''')

    assert interface == Interface(
        convention="main",
        description="Process a file and return results.",
        input_schema={
            "type": "object",
            "properties": {
                "path": {"description": "What to read.", "type": "string"},
                "size": {
                    "type": "object",
                    "properties": {"width": {"type": "integer"}, "height": {"type": "integer"}},
                    "required": ["width"],
                },
                "mode": {"description": "How.", "type": "string", "default": "fast"},
                "limit": {"type": ["integer", "null"]},
            },
            "additionalProperties": False,
            "required": ["path", "size"],
        },
    )


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        ("int", {"type": "integer"}),
        ("float", {"type": "number"}),
        ("bool", {"type": "boolean"}),
        ("pathlib.Path", {"type": "string"}),
        ("list[int]", {"type": "array", "items": {"type": "integer"}}),
        ("List[str]", {"type": "array", "items": {"type": "string"}}),
        ("list", {"type": "array"}),
        ("tuple[int, ...]", {"type": "array", "items": {"type": "integer"}}),
        (
            "tuple[int, str]",
            {
                "type": "array",
                "prefixItems": [{"type": "integer"}, {"type": "string"}],
                "minItems": 2,
                "maxItems": 2,
            },
        ),
        ("dict", {"type": "object"}),
        ("dict[str, int]", {"type": "object", "additionalProperties": {"type": "integer"}}),
        ("Optional[str]", {"type": ["string", "null"]}),
        ("int | str", {"type": ["integer", "string"]}),
        (
            "Union[list[int], None]",
            {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]},
        ),
        ("Literal['a', 1]", {"type": ["string", "integer"], "enum": ["a", 1]}),
        ("Annotated[int, 'How many']", {"type": "integer", "description": "How many"}),
        ("'int'", {"type": "integer"}),
        ("Color", {"type": "string", "enum": ["red", "blue"]}),
        ("Mode", {"type": "string", "enum": ["x", "y"]}),
        ("Any", {}),
        ("numpy.ndarray", {}),
        ("'not python at all'", {}),
    ],
)
def test_an_annotation_becomes_a_schema(annotation: str, schema: dict[str, Any]) -> None:
    text = f"""
        import enum
        class Color(enum.Enum):
            RED = "red"
            BLUE = "blue"
        Mode = Literal["x", "y"]
        def main(x: {annotation}): ...
    """

    assert properties_of(text) == {"x": schema}


@pytest.mark.parametrize(
    "text",
    [
        "def main(path: str): ...\nif __name__ == '__main__':\n    main('x')\n",
        "import asyncio\nasync def main(path): ...\nasyncio.run(main('x'))\n",
        "def main(argv=None): ...",
    ],
)
def test_a_main_that_the_script_calls_is_not_the_convention(
    text: str,
) -> None:
    assert interface_of(text) == Interface(convention="stdin")


@pytest.mark.parametrize("parameters", ["*paths", "path, **settings"])
def test_a_main_with_any_number_of_arguments_is_uncertain(parameters: str) -> None:
    signature = read_python(f"\ndef main({parameters}): ...")

    assert (signature.uncertain, signature.uncertain_line) == (
        "main takes any number of arguments",
        2,
    )
    assert signature.interface == Interface(convention="stdin")
