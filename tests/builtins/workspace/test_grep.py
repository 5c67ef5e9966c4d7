"""`grep`, with ripgrep and without: the same questions, the same answers."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillpouch.arguments import check_arguments
from skillpouch.builtins.workspace.context import ToolAnswer
from skillpouch.builtins.workspace.grep import search_with
from skillpouch.builtins.workspace.running import built_in_tools
from skillpouch.calls import Terms, ToolCall
from skillpouch.errors import ToolFaultError
from skillpouch.limits import Limits
from tests.builtins.workspace.conftest import Use

pytestmark = pytest.mark.slow

RIPGREP = shutil.which("rg") or ""
GREP = next(tool for tool in built_in_tools() if tool.name == "grep")
ENGINES = [
    pytest.param(
        RIPGREP,
        id="ripgrep",
        marks=pytest.mark.skipif(
            not RIPGREP, reason="ripgrep is not installed: apt install ripgrep"
        ),
    ),
    pytest.param("", id="python"),
]

Grep = Callable[..., Any]


def call_of(workspace: Path, arguments: dict[str, Any], **limits: Any) -> ToolCall:
    return ToolCall(
        tool=GREP,
        arguments=check_arguments(GREP, arguments),
        terms=Terms(workspace=workspace),
        limits=Limits(**{"timeout_seconds": 20.0, **limits}),
    )


@pytest.fixture(params=ENGINES)
def grep(request: pytest.FixtureRequest, workspace: Path) -> Grep:
    async def run(pattern: str, **arguments: Any) -> ToolAnswer:
        call = call_of(workspace, {"pattern": pattern, **arguments})
        answer, _ = await search_with(call, request.param)
        return answer

    return run


@pytest.fixture
def tree(workspace: Path) -> Path:
    files = {
        "a.py": "import os\ndef main():\n    return os.name\n",
        "b.txt": "one\ntwo import\nthree\nfour\nfive\n",
        "src/c.py": "import sys\n\n\n# the end\nimport re\n",
        "src/deep/d.js": "import x from 'y'\n",
        ".github/e.yml": "import: yes\n",
        ".git/config": "import\n",
        ".skillpouch/output/x": "import\n",
        "build/f.py": "import built\n",
        "debug.log": "import log\n",
        ".gitignore": "build/\n*.log\n",
        "bin": "import\0\n",
        "wide.txt": "",
    }
    for path, text in files.items():
        (workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (workspace / path).write_text(text)
    (workspace / "wide.txt").write_bytes("import wide\r\n".encode("utf-16"))
    (workspace / "link.py").symlink_to("a.py")
    return workspace


@pytest.mark.usefixtures("tree")
async def test_lines_are_found_with_path_and_number(grep: Grep) -> None:
    answer = await grep("^import")

    assert answer.text == (
        ".github/e.yml:1:import: yes\na.py:1:import os\nsrc/c.py:1:import sys\n"
        "src/c.py:5:import re\nsrc/deep/d.js:1:import x from 'y'\nwide.txt:1:import wide"
    )
    assert answer.structured["total"] == 6


@pytest.mark.usefixtures("tree")
async def test_lines_around_are_shown_once(grep: Grep) -> None:
    answer = await grep("import|four", path="b.txt", context=1)

    assert answer.text == (
        "b.txt-1-one\nb.txt:2:two import\nb.txt-3-three\nb.txt:4:four\nb.txt-5-five"
    )


@pytest.mark.usefixtures("tree")
async def test_places_that_do_not_touch_are_parted(grep: Grep) -> None:
    answer = await grep("import", path="src/c.py", **{"-A": 1})

    assert answer.text == "src/c.py:1:import sys\nsrc/c.py-2-\n--\nsrc/c.py:5:import re"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"output_mode": "files"}, ".github/e.yml\na.py\nb.txt\nsrc/c.py\nsrc/deep/d.js\nwide.txt"),
        ({"output_mode": "count", "path": "src"}, "src/c.py:2\nsrc/deep/d.js:1"),
        ({"output_mode": "files", "glob": "*.py"}, "a.py\nsrc/c.py"),
        ({"output_mode": "files", "glob": "src/**"}, "src/c.py\nsrc/deep/d.js"),
        ({"output_mode": "files", "glob": "!src"}, ".github/e.yml\na.py\nb.txt\nwide.txt"),
        ({"output_mode": "files", "glob": "*.log"}, "[nothing was found]"),
        ({"output_mode": "files", "glob": "*.{js,txt}"}, "b.txt\nsrc/deep/d.js\nwide.txt"),
        ({"output_mode": "files", "type": "py"}, "a.py\nsrc/c.py"),
        ({"output_mode": "files", "path": "build"}, "build/f.py"),
        ({"output_mode": "files", "path": "debug.log"}, "debug.log"),
        ({"output_mode": "files", "path": "link.py"}, "a.py"),
        (
            {"path": "src", "multiline": True, "glob": "c.py"},
            "src/c.py:1:import sys\nsrc/c.py:5:import re",
        ),
    ],
)
@pytest.mark.usefixtures("tree")
async def test_what_is_asked_for_is_what_is_given(
    arguments: dict[str, Any], text: str, grep: Grep
) -> None:
    assert (await grep("import", **arguments)).text == text


@pytest.mark.usefixtures("tree")
async def test_a_match_may_go_over_several_lines(grep: Grep) -> None:
    answer = await grep(r"sys\n+# the", multiline=True)

    assert [fact["line"] for fact in answer.structured["results"]] == [1, 2, 3, 4]


async def test_all_pages_together_are_all_lines(grep: Grep, workspace: Path) -> None:
    for name in ("a", "b"):
        (workspace / name).write_text("".join(f"hit {n}\n" for n in range(25)))
    seen = list[tuple[str, int]]()
    offset: int | None = 0

    while offset is not None:
        answer = await grep("hit", head_limit=7, offset=offset)
        seen += [(fact["path"], fact["line"]) for fact in answer.structured["results"]]
        offset = answer.structured["next_offset"]

    assert seen == [(name, n + 1) for name in ("a", "b") for n in range(25)]


@pytest.mark.usefixtures("tree")
async def test_nothing_found_is_no_failure(grep: Grep) -> None:
    assert (await grep("nowhere to be found")).text == "[nothing was found]"


@pytest.mark.parametrize(
    "pattern", ["(", "[a", "a{2,1}", "*a", r"(?=x)", r"(a)\1", r"a\nb", "x{", r"\Z", "a\\"]
)
@pytest.mark.usefixtures("tree")
async def test_a_bad_expression_is_an_error(pattern: str, grep: Grep) -> None:
    with pytest.raises(ToolFaultError) as caught:
        await grep(pattern)

    assert caught.value.kind == "invalid_argument"


@pytest.mark.parametrize("pattern", ["--pre=touch pwned", "-e", "--files", "-f/etc/passwd", "--"])
async def test_a_pattern_that_looks_like_an_option_is_a_pattern(
    pattern: str, grep: Grep, workspace: Path
) -> None:
    (workspace / "f").write_text(f"x {pattern} y\n")
    (workspace / "-g").write_text(f"x {pattern} y\n")

    answer = await grep(pattern, output_mode="files")

    assert answer.text == "-g\nf"


async def test_options_in_paths_and_globs_are_names(grep: Grep, workspace: Path) -> None:
    (workspace / "--files").mkdir()
    (workspace / "--files" / "-x").write_text("hit\n")

    assert (await grep("hit", path="--files", glob="-x")).text == "--files/-x:1:hit"


async def test_a_settings_file_of_ripgrep_changes_nothing(
    grep: Grep, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / "rc").write_text("--files\n")
    (workspace / ".ignore").write_text("f\n")
    (workspace / "f").write_text("hit\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(workspace / "rc"))

    assert (await grep("hit")).text == "f:1:hit"


async def test_long_lines_are_cut(grep: Grep, workspace: Path) -> None:
    (workspace / "f").write_text(f"hit {'漢' * 1000}\n")

    assert (await grep("hit")).text.endswith("漢 [... 504 characters left out ...]")


async def test_a_name_that_is_no_text_is_shown(grep: Grep, workspace: Path) -> None:
    Path(f"{workspace}/na\udcffme\u202e").write_text("hit\n")

    assert (await grep("hit")).text == "na\\xffme:1:hit"


async def test_a_catastrophic_expression_ends_in_time(workspace: Path) -> None:
    (workspace / "f").write_text("a" * 40 + "b\n")
    call = call_of(workspace, {"pattern": "^(a+)+$"}, timeout_seconds=1.0)

    with pytest.raises(ToolFaultError) as caught:
        await search_with(call, "")

    assert caught.value.kind == "timeout"


@pytest.mark.skipif(not RIPGREP, reason="ripgrep is not installed: apt install ripgrep")
async def test_too_much_to_show_says_what_to_do(workspace: Path) -> None:
    (workspace / "f").write_text("hit\n" * 50_000)
    call = call_of(workspace, {"pattern": "hit", "output_mode": "count"}, kill_bytes=100_000)

    with pytest.raises(ToolFaultError) as caught:
        await search_with(call, RIPGREP)

    assert (caught.value.kind, "output_mode" in caught.value.hint) == ("too_much", True)


def test_a_missing_folder_is_not_found(use: Use) -> None:
    assert use("grep", pattern="x", path="nope").code == "not_found"


def test_a_search_is_confined(use: Use, workspace: Path) -> None:
    (workspace / "f").write_text("hit\n")

    result = use("grep", pattern="hit")

    assert result.protections["fs"] != "none"
    assert result.protections["net"] != "none"
