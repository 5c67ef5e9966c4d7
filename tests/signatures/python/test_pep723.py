"""PEP 723 blocks, whole and broken."""

import pytest

from skillpouch.signatures.python.pep723 import Malformed, read_block, read_dependencies
from skillpouch.signatures.signature import Dependencies


def test_a_block_says_which_python_and_which_packages() -> None:
    lines = [
        "#!/usr/bin/env -S uv run --script",
        "# /// script",
        "# requires-python = '>=3.11'",
        "# dependencies = [",
        "#   'requests<3',",
        "#",
        "#   'rich',",
        "# ]",
        "# ///",
        "import rich",
    ]

    assert read_dependencies("\r\n".join(lines)) == Dependencies(
        requires_python=">=3.11", packages=("requests<3", "rich")
    )


@pytest.mark.parametrize(
    "text",
    ["", "# A script.\n", "# /// pyproject\n# x = 1\n# ///\n", "x = '''\n  # /// script\n'''"],
)
def test_a_script_without_a_block_asks_for_nothing(text: str) -> None:
    assert read_block(text) is None


def test_an_empty_block_is_a_block() -> None:
    assert read_block("# /// script\n# ///\n") == Dependencies()


@pytest.mark.parametrize(
    ("text", "malformed"),
    [
        (
            "\n# /// script\n# dependencies = []\n",
            Malformed(reason="the script block is never closed", line=2),
        ),
        (
            "# /// script\n# ///\n\n# /// script\n# ///\n",
            Malformed(reason="more than one script block", line=4),
        ),
        (
            "# /// script\n# dependencies = 'rich'\n# ///\n",
            Malformed(reason="dependencies is not a list of strings", line=1),
        ),
        (
            "# /// script\n# requires-python = 3.11\n# ///\n",
            Malformed(reason="requires-python is not a string", line=1),
        ),
    ],
)
def test_a_block_that_cannot_be_used_says_why(text: str, malformed: Malformed) -> None:
    assert read_block(text) == malformed
    assert read_dependencies(text) is None


def test_toml_that_cannot_be_read_says_where() -> None:
    block = read_block("# /// script\n# dependencies = [\n# ///\n")

    assert isinstance(block, Malformed)
    assert block.reason.startswith("not valid TOML: ")


def test_the_last_closing_line_ends_a_block() -> None:
    text = "# /// script\n# dependencies = ['''\n# ///\n# ''']\n# ///\n"

    assert read_block(text) == Dependencies(packages=("///\n",))


ONE = '# /// script\n# dependencies = ["rich"]\n# ///\n'


@pytest.mark.parametrize(
    "template",
    [
        '"""\n# /// script\n# dependencies = ["other"]\n# ///\n"""\n',
        '"""\n# /// script\n# dependencies = [\n{lines}# ]\n# ///\n"""\n',
    ],
)
def test_a_block_in_a_template_is_none(template: str) -> None:
    assert read_block(f"{ONE}TEXT = {template}") == Dependencies(packages=("rich",))
