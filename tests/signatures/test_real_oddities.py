"""What the scripts of real skills taught: names that are no variables, functions no handlers."""

import gc
from typing import Any

import pytest

from skillpouch.signatures import read_signature


def test_reading_a_parser_leaves_nothing_to_the_collector() -> None:
    text = (
        "import argparse\nclass Tool:\n    pass\ndef main():\n    p = argparse.ArgumentParser()\n"
        "    p.add_argument('x')\n    p.parse_args()\nmain()\n"
    )
    read_signature(text, "python")
    gc.collect()

    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        read_signature(text, "python")
        gc.collect()
        # Other threads of the tests leave garbage, too, but none of these kinds.
        kinds = {type(thing).__module__ for thing in gc.garbage}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()

    assert not [kind for kind in kinds if kind.startswith(("ast", "_ast", "skillpouch.signatures"))]


def test_line_ends_of_another_system_hide_no_here_document_end() -> None:
    text = '#!/bin/bash\ncat <<\'EOF\'\nhi\nEOF\nrun "$1" "$API_KEY"\n'

    unix = read_signature(text, "shell")
    windows = read_signature(text.replace("\n", "\r\n"), "shell")

    assert windows == unix
    assert windows.variables == ("API_KEY",)


@pytest.mark.parametrize(
    "text",
    [
        'read -r -p "Title: " TITLE\necho "$TITLE"\n',
        'printf -v TITLE "%s" x\necho "$TITLE"\n',
        'ask() { read -r a; eval "$2=\\$a"; }\nask "Title:" TITLE\necho "$TITLE"\n',
    ],
)
def test_a_name_that_the_shell_script_sets_is_no_variable(text: str) -> None:
    assert read_signature(text, "shell").variables == ()


def test_a_variable_passed_to_a_function_stays_one() -> None:
    text = 'ask() { echo "$1"; }\nask "set TITLE first" "$TITLE"\n'

    assert read_signature(text, "shell").variables == ("TITLE",)


def test_standard_variables_are_not_reported_for_javascript_either() -> None:
    text = "f(process.env.HOME, process.env.PATH, process.env.NODE_ENV, process.env.API_KEY)"

    assert read_signature(text, "javascript").variables == ("API_KEY",)


@pytest.mark.parametrize(
    ("text", "convention"),
    [
        ("function parseArgs(a) { return a }\nmodule.exports = { parseArgs };\n", "stdin"),
        ("const { parseArgs } = require('./lib');\nrun(parseArgs({ options: {} }));\n", "stdin"),
        ("import { main } from './m.js';\nif (x === process.argv[1]) main();\n", "stdin"),
        ("async function make(a, b, c = {}) {}\nmodule.exports = make;\n", "stdin"),
        ("import { parseArgs } from 'node:util';\nrun(parseArgs({ options: {} }));\n", "argv"),
        ("exports.handler = async (event, context) => event.name;\n", "handler"),
        ("module.exports = function (args, options = {}) { return args.x };\n", "handler"),
    ],
)
def test_only_what_node_itself_means_counts(text: str, convention: str) -> None:
    assert read_signature(text, "javascript").interface.convention == convention


@pytest.mark.parametrize(
    ("language", "text", "description"),
    [
        ("shell", "#!/bin/bash\n\n# Exit on error\nset -e\n\necho $1\n", ""),
        ("shell", "#!/bin/bash\n# Deploy it.\n# Exit on error\nset -e\n", "Deploy it."),
        ("shell", "# --- How to run ---\n\n# Deploy it.\nrun\n", "Deploy it."),
        ("python", '"""Convert it. Usage: x.py IN OUT"""\n', "Convert it."),
        ("python", '"""Usage: x.py IN OUT"""\n', "Usage: x.py IN OUT"),
        ("python", '"""My title\n========\nDoes it.\n"""\n', "My title"),
    ],
)
def test_a_description_is_about_what_the_script_does(
    language: Any, text: str, description: str
) -> None:
    assert read_signature(text, language).interface.description == description
