"""Files that change between two calls: the next call runs what is there now."""

import os
from pathlib import Path

import pytest

from tests.execution.preforked.ways import Ways

pytestmark = pytest.mark.slow


def rewrite(file: Path, text: str) -> None:
    """Write other text of the same length at the same path, as an editor would."""
    file.write_text(text)


def test_a_script_that_was_edited_runs_as_it_is_now(ways: Ways) -> None:
    script = ways.write("edited", "print('one')\n")
    assert ways.warm(script).stdout == b"one\n"

    rewrite(script, "print('two')\n")

    assert ways.warm(script).stdout == b"two\n"


def test_a_script_that_was_replaced_runs_as_it_is_now(ways: Ways) -> None:
    script = ways.write("replaced", "print('one')\n")
    assert ways.warm(script).stdout == b"one\n"

    other = script.with_name("other.tmp")
    other.write_text("print('two')\n")
    times = script.stat()
    os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
    other.replace(script)

    assert ways.warm(script).stdout == b"two\n"


def test_a_script_that_was_broken_says_what_python_says(ways: Ways) -> None:
    script = ways.write("broken_later", "print('one')\n")
    assert ways.warm(script).stdout == b"one\n"

    rewrite(script, "print('two'\n")

    assert ways.seen(ways.end(script)) == ways.cold(script)


def test_a_sibling_that_was_edited_is_imported_as_it_is_now(ways: Ways) -> None:
    script = ways.write("sibling_edited", "import sibling\nprint(sibling.X)\n")
    assert ways.warm(script).stdout == b"42\n"

    rewrite(script.with_name("sibling.py"), "X = 43\n")

    assert ways.warm(script).stdout == b"43\n"


def test_a_new_import_in_an_edited_script_works(ways: Ways) -> None:
    script = ways.write("imports_more", "print('one')\n")
    ways.warm(script)

    rewrite(script, "import colorsys, json\nprint(json.dumps(colorsys.rgb_to_hls(1, 0, 0)))\n")

    assert ways.warm(script) == ways.cold(script)


def test_a_new_file_that_hides_a_loaded_module_is_imported(ways: Ways) -> None:
    script = ways.write("hidden_later", "import json\nprint(json.__file__, json.dumps([1]))\n")
    ways.warm(script)

    script.with_name("json.py").write_text("def dumps(x):\n    return 'mine'\n")
    hidden = ways.seen(ways.end(script))

    assert hidden == ways.cold(script)
    assert hidden.stdout.endswith(b"json.py mine\n")


def test_a_new_file_that_hides_what_a_loaded_module_needs_makes_calls_cold(ways: Ways) -> None:
    text = "import logging, string\nprint(string.__file__, hasattr(logging, 'info'))\n"
    script = ways.write("hidden_deeper", text)
    ways.warm(script)

    script.with_name("string.py").write_text("class Template:\n    pass\nFormatter = Template\n")
    ended = ways.end(script)

    why = "a file of the skill has the name of a module that is already loaded"
    assert (ended.warm, ended.cold_because) == (False, why)
    assert ways.seen(ended) == ways.cold(script)


def test_a_file_that_hid_a_module_and_is_gone_hides_nothing(ways: Ways) -> None:
    script = ways.write(
        "hidden_before",
        "import json\nprint(json.dumps([1]))\n",
        {"json.py": "def dumps(x):\n    return 'mine'\n"},
    )
    assert ways.end(script).stdout.data == b"mine\n"

    script.with_name("json.py").unlink()

    assert ways.warm(script).stdout == b"[1]\n"


def test_a_folder_that_hides_a_module_is_imported(ways: Ways) -> None:
    script = ways.write(
        "hidden_by_folder",
        "import json\nprint(json.X)\n",
        {"json/__init__.py": "X = 'mine'\n"},
    )

    assert ways.end(script).stdout.data == b"mine\n"


def test_an_edit_that_keeps_size_and_time_is_seen_by_its_change_time(ways: Ways) -> None:
    script = ways.write("sly", "print('one')\n")
    times = script.stat()
    assert ways.warm(script).stdout == b"one\n"

    script.write_text("print('two')\n")
    os.utime(script, ns=(times.st_atime_ns, times.st_mtime_ns))

    assert ways.warm(script).stdout == b"two\n"
