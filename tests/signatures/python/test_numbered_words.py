"""Python scripts that take the words of their command line by number, and say how to use them."""

from typing import Any

import pytest

from skillpouch.signatures import read_signature
from skillpouch.signatures.argv import ArgvArgument

START = "import sys\n"


def typed(text: str) -> tuple[list[str], list[str]]:
    """Return the names of all arguments, and of the required ones."""
    schema: Any = read_signature(START + text, "python").interface.input_schema
    return list(schema["properties"]), schema.get("required", [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("source = sys.argv[1]\nprint(source)", (["source"], ["source"])),
        (
            "if len(sys.argv) < 3:\n    sys.exit(1)\na = sys.argv[1]\nb = Path(sys.argv[2])",
            (["a", "b"], ["a", "b"]),
        ),
        (
            "a = sys.argv[1]\nb = sys.argv[2] if len(sys.argv) > 2 else 'out.txt'",
            (["a", "b"], ["a"]),
        ),
        (
            "a = sys.argv[1]\nb = 1\nif len(sys.argv) > 2:\n    b = int(sys.argv[2])",
            (["a", "b"], ["a"]),
        ),
        (
            "def go(pdf, to): ...\nif len(sys.argv) < 3:\n    exit()\ngo(sys.argv[1], sys.argv[2])",
            (["pdf", "to"], ["pdf", "to"]),
        ),
        (
            "print('Usage: x.py <in file> [out]')\nprint(sys.argv[1], sys.argv[2])",
            (["in_file", "out"], ["in_file", "out"]),
        ),
        ("print(f'Hello, {sys.argv[1]}!')", (["args"], [])),
        ("reader = PdfReader(sys.argv[1])", (["args"], [])),
        ("print(sys.argv[1], '-v' in sys.argv)", (["arg1", "v"], ["arg1"])),
        ("# Usage: x.py <report>\nreader = PdfReader(sys.argv[1])", (["report"], ["report"])),
        ("try:\n    a = sys.argv[1]\nexcept IndexError:\n    a = ''", (["a"], [])),
        ("a = sys.argv[1]\nflag = '--all' in sys.argv", (["a", "all"], ["a"])),
        (
            "if len(sys.argv) < 2:\n    work()\n    sys.exit(0)\na = sys.argv[1]",
            (["a"], []),
        ),
    ],
)
def test_numbered_words_are_arguments_with_names(
    text: str, expected: tuple[list[str], list[str]]
) -> None:
    assert typed(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "a = sys.argv[2]",
        "if sys.argv[1] == 'add':\n    name = sys.argv[2]",
        "command = sys.argv[1]\nif command == 'add':\n    name = sys.argv[2]",
        "if len(sys.argv) > 2:\n    a = sys.argv[1]\n    b = sys.argv[2]",
        "print(sys.argv[1:])",
    ],
)
def test_where_anything_is_in_doubt_all_words_stay_one_list(text: str) -> None:
    assert typed(text) == (["args"], [])


def test_a_number_and_a_default_are_kept() -> None:
    text = "n = int(sys.argv[1])\no = sys.argv[2] if len(sys.argv) > 2 else 'out.txt'\n"

    interface = read_signature(START + text, "python").interface

    assert interface.input_schema == {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "o": {"type": "string", "default": "out.txt"}},
        "required": ["n"],
        "additionalProperties": False,
    }
    assert interface.plan == (ArgvArgument(name="n"), ArgvArgument(name="o", nargs="?"))


@pytest.mark.parametrize(
    ("language", "filename", "text"),
    [
        ("python", "go.py", 'import sys\nprint("Usage: go.py IN OUT")\nprint(sys.argv[1:])\n'),
        ("python", "go.py", 'import sys\nprint(f"Usage: {sys.argv[0]} IN OUT")\nf(sys.argv)\n'),
        ("python", "go.py", '"""Go.\n\nUsage:\n    go.py IN OUT\n"""\nimport sys\nf(sys.argv)\n'),
        ("shell", "go.sh", 'echo "Usage: $0 IN OUT" >&2\nrun "$@"\n'),
        ("shell", "go.sh", "# Usage: go.sh IN OUT\nrun $@\n"),
        ("shell", "go.sh", 'cat <<EOF\nUsage: $(basename "$0") IN OUT\nEOF\nrun $@\n'),
        ("javascript", "go.js", "console.log('Usage: go.js IN OUT\\n');\nf(process.argv.slice(2))"),
        ("ruby", "go.rb", 'puts "Usage: #{$0} IN OUT"\nrun(ARGV)\n'),
        ("perl", "go.pl", 'print "Usage: $0 IN OUT\\n";\nrun(@ARGV);\n'),
    ],
)
def test_a_list_of_words_is_described_by_the_scripts_own_usage(
    language: Any, filename: str, text: str
) -> None:
    schema: Any = read_signature(text, language, filename=filename).interface.input_schema

    described = schema["properties"]["args"]["description"]

    assert described == f"Command-line arguments; usage: {filename} IN OUT"


def test_text_that_is_no_valid_python_but_names_argparse_takes_words() -> None:
    signature = read_signature("import argparse\nthis is (not python\n", "python")

    assert signature.interface.convention == "argv"
    assert signature.uncertain
