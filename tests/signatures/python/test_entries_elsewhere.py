"""Scripts whose work is done by code of another file, which may read their words."""

from pathlib import Path

import pytest

from skillpouch import SkillManager
from skillpouch.signatures import read_signature
from tests.conftest import WriteSkill

WORDS = {"args"}


def properties_of(text: str) -> set[str]:
    schema = read_signature(text, "python").interface.input_schema
    return set() if schema is None else set(schema["properties"])


@pytest.mark.parametrize(
    "text",
    [
        "from lamp.cli import main\nmain()\n",
        "import sys\nfrom lamp import main\nif __name__ == '__main__':\n    sys.exit(main())\n",
        "import lamp.cli\nif __name__ == '__main__':\n    raise SystemExit(lamp.cli.run())\n",
        "from lamp import tool\n@tool.argument('-i')\ndef go(given):\n    print(given)\ngo()\n",
    ],
)
def test_code_of_a_package_may_read_any_words(text: str) -> None:
    assert properties_of(text) == WORDS


@pytest.mark.parametrize(
    "text",
    [
        "from functools import cache\n@cache\ndef go():\n    print(1)\ngo()\n",
        "from lamp import Client\nclient = Client()\nprint(client.light())\n",
        "from dotenv import load_dotenv\nload_dotenv()\ndef main():\n    print(1)\nmain()\n",
        "import sys\nfrom lamp import light\ndef main():\n    light(sys.stdin.read())\nmain()\n",
        "import antigravity\n\ndef main():\n    print(1)\nif __name__ == '__main__':\n    main()\n",
    ],
)
def test_what_the_script_does_itself_takes_no_words(text: str) -> None:
    assert properties_of(text) == set()


CLI = """
import argparse
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    print(parser.parse_args().name)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "file"),
    [
        ("from lib.cli import main\nif __name__ == '__main__':\n    main()\n", "lib/cli.py"),
        ("import sys, cli\nsys.exit(cli.main())\n", "cli.py"),
    ],
)
def test_a_main_of_another_module_of_the_skill_is_read_there(
    script: str, file: str, write_skill: WriteSkill, tmp_path: Path
) -> None:
    home = write_skill(files={"scripts/x.py": script, f"scripts/{file}": CLI})
    tools = SkillManager(home.parent, workspace=tmp_path, cache=False).tools
    [tool] = [each for each in tools if each.id == "demo.x"]

    assert set(tool.input_schema["properties"]) == {"name"}
    assert tool.invoke({"name": "Ada"}) == "Ada"
