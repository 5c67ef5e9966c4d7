"""What a script did, read as an answer: values, content, failures, and a marker nobody sees."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillpouch import Limits, SkillManager, ToolResult
from skillpouch.json_values import NO_VALUE, json_value
from skillpouch.needs import Need
from skillpouch.trust.grants import Grants
from tests.conftest import WriteSkill

pytestmark = pytest.mark.slow

Run = Callable[..., ToolResult]


@pytest.fixture
def run(write_skill: WriteSkill, tmp_path: Path) -> Run:
    """Write a script and call it; what was said live is kept too."""

    def call(script: str, name: str = "x.sh", **options: Any) -> ToolResult:
        (tmp_path / "workspace").mkdir()
        root = write_skill(files={f"scripts/{name}": script}).parent
        limits = Limits(**options.pop("limits", {}))
        manager = SkillManager(root, workspace=tmp_path / "workspace", cache=False, limits=limits)
        return manager.call("x", **options)

    return call


def handler(body: str, before: str = "") -> str:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return f"{before}\ndef handler(args):\n{lines}"


def test_content_drops_one_line_end_and_stdout_keeps_it(run: Run) -> None:
    result = run("printf 'a\\n\\n'\n")

    assert (result.content, result.stdout, result.output) == ("a\n", "a\n\n", "a\n")


@pytest.mark.parametrize(
    ("printed", "expected"),
    [('{"a": [1, null]}', {"a": [1, None]}), ("3", 3), ('"t"', "t"), ("true", True), ("[]", [])],
)
def test_what_is_json_on_stdout_is_a_value_too(run: Run, printed: str, expected: Any) -> None:
    result = run(f"echo '{printed}'\n")

    assert (result.structured, result.content) == (expected, printed)


@pytest.mark.parametrize("printed", ["", "text", "{", "{} {}", "NaN", "Infinity", "[NaN]"])
def test_what_is_no_json_is_no_value(run: Run, printed: str) -> None:
    assert run(f"printf '%s' '{printed}'\n").structured is None


@pytest.mark.parametrize("name", ["x.sh", "x.mjs"])
def test_a_value_however_deep_does_not_break_the_host(run: Run, name: str) -> None:
    scripts = {
        "x.sh": "head -c 60000 /dev/zero | tr '\\0' '['; head -c 60000 /dev/zero | tr '\\0' ']'\n",
        "x.mjs": "export default () => { let v = 1; for (let i = 0; i < 3000; i += 1) v = [v];"
        " return v; };\n",
    }
    result = run(scripts[name], name, limits={"keep_bytes": 200_000})

    assert result.outcome == "ok"
    assert result.content.startswith("[[[")


def test_a_failure_keeps_both_streams_and_its_exit_code(run: Run) -> None:
    result = run("echo out; echo err >&2; exit 3\n")

    assert (result.outcome, result.is_error, result.exit_code) == ("failed", True, 3)
    assert (result.stdout, result.stderr) == ("out\n", "err\n")
    assert result.content == "out\nerr\nexit code 3"


def test_a_signal_is_told(run: Run) -> None:
    result = run("kill -SEGV $$\n")

    assert (result.outcome, result.exit_code, result.signal) == ("failed", None, 11)
    assert "signal 11" in result.content


def test_what_is_said_on_stderr_of_a_success_is_kept_apart(run: Run) -> None:
    result = run("echo warning >&2; echo out\n")

    assert (result.content, result.stderr, result.is_error) == ("out", "warning\n", False)


HANDLERS_THAT_RAISE = {
    "x.py": handler("print('working')\nraise ValueError('no such city')"),
    "x.mjs": "export default async () => { console.log('working');"
    " throw new Error('no such city'); };\n",
    "x.cjs": "module.exports = () => { console.log('working');"
    " return Promise.reject(new Error('no such city')); };\n",
}


@pytest.mark.parametrize("name", HANDLERS_THAT_RAISE)
def test_a_handler_that_raises_answers_with_its_error(run: Run, name: str) -> None:
    result = run(HANDLERS_THAT_RAISE[name], name)

    assert (result.outcome, result.exit_code) == ("failed", 1)
    assert result.structured == {"error": "no such city"}
    assert result.stdout == "working\n"
    assert "no such city" in result.stderr
    assert result.content.startswith('{"error": "no such city"}')


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("x.py", handler("return 1", before="import no_such_module_anywhere")),
        ("x.py", "def handler(args)\n    return 1\n"),
        ("x.mjs", "import 'no_such_module_anywhere';\nexport default () => 1;\n"),
    ],
    ids=["python import", "python syntax", "javascript import"],
)
def test_a_handler_that_cannot_be_loaded_says_why(run: Run, name: str, code: str) -> None:
    result = run(code, name)

    assert (result.outcome, result.exit_code) == ("failed", 1)
    assert "no_such_module_anywhere" in result.content or "SyntaxError" in result.content


HANDLERS_THAT_PRINT = {
    "x.py": handler("print('progress', end='')\nreturn {'n': 1}"),
    "x.mjs": "export default () => { process.stdout.write('progress'); return { n: 1 }; };\n",
}


@pytest.mark.parametrize("name", HANDLERS_THAT_PRINT)
def test_what_a_handler_prints_and_what_it_returns_stay_apart(run: Run, name: str) -> None:
    result = run(HANDLERS_THAT_PRINT[name], name)

    assert (result.stdout, result.structured) == ("progress", {"n": 1})
    assert result.content == '{"n": 1}'


@pytest.mark.parametrize(
    ("returned", "content", "structured"),
    [
        ("'text ü'", "text ü", "text ü"),
        ("None", "null", None),
        ("0", "0", 0),
        ("[]", "[]", []),
        ("(1, 'ü')", '[1, "ü"]', [1, "ü"]),
    ],
)
def test_what_a_handler_returns_is_its_answer(
    run: Run, returned: str, content: str, structured: Any
) -> None:
    result = run(handler(f"return {returned}"), "x.py")

    assert (result.content, result.structured) == (content, structured)


@pytest.mark.parametrize("returned", ["float('nan')", "'\\ud800'", "{'a': float('inf')}"])
def test_an_answer_can_always_be_written_as_json_and_as_text(run: Run, returned: str) -> None:
    result = run(handler(f"return {returned}"), "x.py")

    result.content.encode()
    result.stdout.encode()
    json.dumps(result.structured, allow_nan=False, ensure_ascii=False).encode()


@pytest.mark.parametrize(("word", "code"), [("3", 3), ("0", 0), ("'gone'", 1)])
def test_a_handler_that_exits_ends_with_that_code(run: Run, word: str, code: int) -> None:
    result = run(handler(f"print('out')\nsys.exit({word})", before="import sys"), "x.py")

    assert (result.exit_code, result.stdout) == (code, "out\n")
    assert ("gone" in result.stderr) == (word == "'gone'")


AWKWARD_HANDLERS = {
    "prints at exit": handler(
        "atexit.register(print, 'bye')\nreturn {'n': 1}", before="import atexit"
    ),
    "replaces stdout": handler(
        "sys.stdout = io.StringIO()\nprint('lost')\nreturn {'n': 1}", before="import io, sys"
    ),
    "closes stdout": handler("sys.stdout.close()\nreturn {'n': 1}", before="import sys"),
    "wraps stdout": handler(
        "print('x', end='')\nreturn {'n': 1}",
        before="import io, sys\nsys.stdout = io.TextIOWrapper(sys.stdout.buffer, 'utf-16')",
    ),
    "leaves a thread": handler(
        "threading.Thread(target=lambda: (time.sleep(0.05), print('late'))).start()\n"
        "return {'n': 1}",
        before="import threading, time",
    ),
    "leaves a child": handler(
        "subprocess.Popen(['sh', '-c', 'echo child; sleep 100'])\nreturn {'n': 1}",
        before="import subprocess",
    ),
}


@pytest.mark.parametrize("code", AWKWARD_HANDLERS.values(), ids=AWKWARD_HANDLERS)
def test_the_answer_arrives_whatever_a_handler_does_to_its_output(run: Run, code: str) -> None:
    result = run(code, "x.py")

    assert (result.outcome, result.structured) == ("ok", {"n": 1}), result.stderr


def seen_anywhere(result: ToolResult, live: list[bytes]) -> str:
    saved = "".join(path.read_text() for path in result.saved)
    return result.content + result.stdout + result.stderr + saved + b"".join(live).decode()


@pytest.mark.parametrize("printed", [0, 3, 450, *range(470, 505, 5), 900, 5_000])
def test_no_marker_is_seen_wherever_a_long_answer_is_cut(run: Run, printed: int) -> None:
    live: list[bytes] = []
    body = f"sys.stdout.write('p' * {printed})\nreturn 'v' * 2000"

    result = run(
        handler(body, before="import sys"),
        "x.py",
        limits={"keep_bytes": 1_000},
        on_output=lambda _, piece: live.append(piece),
    )

    seen = seen_anywhere(result, live)
    assert (result.outcome, result.truncated) == ("ok", True)
    assert set(seen.replace("bytes left out", "")) <= set('pv"\n[.] 0123456789,')


@pytest.mark.parametrize("name", HANDLERS_THAT_PRINT)
def test_no_marker_is_seen_by_who_listens(run: Run, name: str) -> None:
    live: list[bytes] = []

    run(HANDLERS_THAT_PRINT[name], name, on_output=lambda _, piece: live.append(piece))

    assert b"".join(live) == b"progress"


def test_no_marker_is_seen_by_the_handler_or_what_it_starts(run: Run) -> None:
    code = handler(
        "found = subprocess.run(['env'], capture_output=True, text=True).stdout\n"
        "return sorted({l.split('=')[0] for l in found.splitlines()} | set(os.environ))",
        before="import os, subprocess",
    )

    assert not [name for name in run(code, "x.py").structured if "MARKER" in name]


def test_an_answer_larger_than_what_is_kept_is_saved_whole(run: Run) -> None:
    result = run(handler("return 'v' * 300_000"), "x.py")

    assert (result.outcome, result.truncated) == ("ok", True)
    assert result.structured == "v" * 300_000
    assert len(result.content) < 110_000
    assert "bytes left out" in result.content
    assert json.loads(result.saved[0].read_text()) == "v" * 300_000


def test_escapes_and_hidden_characters_are_removed_from_content_only(run: Run) -> None:
    result = run("printf '\\033[31mred\\033[0m \\342\\200\\256evil\\n'\n")

    assert result.content == "red evil"
    assert result.stdout == "\x1b[31mred\x1b[0m \u202eevil\n"


def test_a_failing_handler_hides_no_escape_in_its_error(run: Run) -> None:
    result = run(handler("raise ValueError('\\x1b[2Jgone \\u202e')"), "x.py")

    assert "\x1b" not in result.content
    assert "\u202e" not in result.content


def test_bytes_that_are_no_text_are_replaced(run: Run) -> None:
    assert run("printf 'a\\377b'\n").stdout == "a\ufffdb"


@pytest.mark.parametrize("printed", ["1e999", '{"a": [-1e999]}', "[" * 300 + "]" * 300])
def test_what_no_client_can_read_as_a_value_stays_text(printed: str) -> None:
    assert json_value(printed) is NO_VALUE


def test_what_is_nested_as_deep_as_clients_read_is_a_value() -> None:
    assert json_value("[" * 200 + "]" * 200) is not NO_VALUE


NOT_THERE = {
    "a.py": "import subprocess\nsubprocess.run(['no-such-program'])\n",
    "b.sh": "no-such-program --help\n",
    "c.rb": "exec 'no-such-program'\n",
    "d.js": "require('child_process').execFileSync('no-such-program')\n",
}


@pytest.mark.parametrize("name", NOT_THERE)
def test_a_program_that_is_not_there_is_said_to_be_not_installed(
    write_skill: WriteSkill, tmp_path: Path, name: str
) -> None:
    root = write_skill(files={f"scripts/{name}": NOT_THERE[name]}).parent
    (tmp_path / "work").mkdir()

    result = SkillManager(root, workspace=tmp_path / "work").call(f"demo.{name[0]}")

    note = "note: no-such-program is not installed, or tools cannot see it"
    assert result.content.splitlines()[-1] == note


@pytest.mark.parametrize("place", ["typo.txt", "./no/typo.txt", "{work}/typo.txt", "/etc/typo"])
@pytest.mark.parametrize("language", ["py", "sh"])
def test_a_file_that_the_tool_would_see_is_not_blamed_on_confinement(
    write_skill: WriteSkill, tmp_path: Path, place: str, language: str
) -> None:
    path = place.format(work=tmp_path / "work")
    text = f"open('{path}')\n" if language == "py" else f"cat '{path}'\n"
    root = write_skill(files={f"scripts/x.{language}": text}).parent
    (tmp_path / "work").mkdir()

    result = SkillManager(root, workspace=tmp_path / "work").call("demo.x")

    assert "No such file or directory" in result.content
    assert "note:" not in result.content


@pytest.mark.parametrize("language", ["py", "sh"])
def test_a_file_out_of_sight_is_told_to_be_out_of_sight_whether_it_exists_or_not(
    write_skill: WriteSkill, tmp_path: Path, language: str
) -> None:
    there, absent = tmp_path / "there", tmp_path / "absent"
    there.write_text("")
    (tmp_path / "work").mkdir()
    texts = {"py": "open('{}')\n", "sh": "cat '{}'\n"}
    root = write_skill(
        files={
            f"scripts/{path.name}.{language}": texts[language].format(path)
            for path in (there, absent)
        }
    ).parent
    manager = SkillManager(root, workspace=tmp_path / "work")

    said = [manager.call(f"demo.{path.name}").content.splitlines() for path in (there, absent)]
    notes = [[line for line in lines if line.startswith("note:")] for lines in said]

    told = "note: it ran confined: no network, and of your files only the workspace and its skill"
    assert notes[0] == notes[1]
    assert notes[0][0] == told


@pytest.mark.parametrize(
    ("name", "text", "note"),
    [
        (
            "x.sh",
            "# X.\r\n\r\nif true; then\r\necho x\r\nfi\r\n",
            r"note: its lines end as on Windows, with \r\n, which a shell cannot read",
        ),
        (
            "x.sh",
            "# X.\necho '[ERR_UNKNOWN_FILE_EXTENSION]: Unknown file extension \".ts\"'\nexit 1",
            "note: this Node does not run TypeScript; node 22.18 or newer does",
        ),
    ],
)
def test_a_failure_that_the_words_of_the_program_do_not_explain_is_explained(
    write_skill: WriteSkill, tmp_path: Path, name: str, text: str, note: str
) -> None:
    home = write_skill(files={f"scripts/{name}": text})

    result = SkillManager(home.parent, workspace=tmp_path, cache=False).call("demo.x")

    assert result.outcome == "failed"
    assert note in result.content.splitlines()


WRITES_BESIDE_ITSELF = {
    "x.py": ("open(__file__ + '.log', 'w')\n", "scripts"),
    "x.sh": ('cd "$(dirname "$0")"\nset -e\necho a > x.log\n', "scripts"),
    "x.cjs": ("require('fs').writeFileSync(__dirname + '/x.log', 'a');\n", "scripts/x.log"),
}


@pytest.mark.parametrize("name", WRITES_BESIDE_ITSELF)
def test_a_script_that_writes_beside_itself_is_told_where_it_can_write(
    run: Run, tmp_path: Path, name: str
) -> None:
    text, entry = WRITES_BESIDE_ITSELF[name]

    result = run(text, name)

    *_, where, grant = result.content.splitlines()
    assert result.outcome == "failed"
    assert where == (
        "note: the files of a skill are read-only for its tools; they write in the workspace"
        f" {tmp_path / 'workspace'} and /tmp"
    )
    assert f"`skillpouch trust demo --own-folder {entry} --root " in grant

    manager = SkillManager(tmp_path / "skills", workspace=tmp_path / "workspace", cache=False)
    Grants().grant(manager.get_skill("demo"), [Need(kind="own-folder", value=entry)])
    assert manager.call("demo.x").outcome == "ok"
