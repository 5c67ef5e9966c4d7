"""What one call of a handler gets and leaves, when its Node was waiting for it."""

import json
import os
from pathlib import Path

import pytest

from skillpouch import Limits, SkillManager
from tests.backends.node.cases import FOREVER, FS, handler
from tests.backends.node.conftest import NewManager
from tests.backends.node.test_same import facts

pytestmark = pytest.mark.slow

SEEN = handler(
    "const own = Object.entries(process.env).filter(([name]) => name.startsWith('TOOL_'));",
    "return [args, Object.fromEntries(own), globalThis.seen, (globalThis.seen = true)];",
)
FROM_FILE = handler(
    "const text = readFileSync(process.env.TOOL_ARGS_FILE, 'utf8');",
    "return [args.text.length, JSON.parse(text).text.length, process.env.TOOL_ARGS ?? null];",
    before=FS,
)


def declare(manager: SkillManager, name: str) -> None:
    """Let a script take any argument that the tests give it."""
    properties = {"text": {"type": "string"}, "n": {"type": "integer"}}
    tool = {"name": name, "description": "d", "script": f"scripts/{name}.mjs"}
    schema = {"type": "object", "properties": properties}
    home = manager.roots[0] / "s"
    (home / "tools.json").write_text(json.dumps([tool | {"input_schema": schema}]))


@pytest.mark.promise("warm-7")
def test_a_call_sees_its_own_arguments_and_nothing_of_the_call_before(
    manager_of: NewManager,
) -> None:
    manager = manager_of({"seen.mjs": SEEN})
    declare(manager, "seen")
    workspace = str(manager.roots[0].parent / "workspace")

    manager.call("seen", {"text": "first", "n": 1})
    result = manager.call("seen", {"n": 2})

    arguments = {"n": 2, "__workDir": workspace}
    expected = {"TOOL_ARGS": json.dumps(arguments), "TOOL_ARG_N": "2"}
    assert result.structured == [arguments, expected, None, True]
    assert result.warm


@pytest.mark.parametrize("size", [10, 60_000, 90_000, 600_000, 5_000_000])
def test_arguments_arrive_whole_whatever_their_size(manager_of: NewManager, size: int) -> None:
    manager = manager_of({"size.mjs": handler("return [args.text.length, args.text.slice(-2)];")})
    declare(manager, "size")

    results = [manager.call("size", {"text": "x" * size + "äz"}) for _ in range(2)]

    assert [(each.structured, each.warm) for each in results] == [([size + 2, "äz"], True)] * 2


def test_large_arguments_lie_in_a_file_too(manager_of: NewManager) -> None:
    manager = manager_of({"file.mjs": FROM_FILE})
    declare(manager, "file")

    result = manager.call("file", {"text": "y" * 300_000})

    assert (result.structured, result.warm) == ([300_000, 300_000, None], True)


@pytest.mark.parametrize("stdin", ["", "hello", "line\n" * 100_000])
@pytest.mark.parametrize(
    "read",
    [
        "return readFileSync(0, 'utf8').length;",
        "let n = 0; for await (const piece of process.stdin) n += piece.length; return n;",
    ],
)
def test_a_handler_reads_the_standard_input_it_is_given(
    manager_of: NewManager, stdin: str, read: str
) -> None:
    manager = manager_of({"listen.mjs": handler(read, before=FS)})

    results = [manager.call("listen", stdin=stdin) for _ in range(2)]

    assert [(each.structured, each.warm) for each in results] == [(len(stdin), True)] * 2


def test_an_edited_script_runs_as_it_is_now(manager_of: NewManager) -> None:
    manager = manager_of({"now.mjs": handler("return 'old';")})
    file = manager.roots[0] / "s/scripts/now.mjs"

    old = manager.call("now")
    file.write_text(handler("return 'new';"))
    new = manager.call("now")

    assert (old.structured, new.structured, new.warm) == ("old", "new", True)


@pytest.mark.parametrize(
    "text", ["export default (\n", "export const x = 1;\n", "export default 5;\n", ""]
)
def test_a_script_that_is_no_handler_any_more_fails_the_same_way(
    manager_of: NewManager, text: str
) -> None:
    manager = manager_of({"now.mjs": handler("return 1;")})
    workspace = manager.roots[0].parent / "workspace"
    cold = SkillManager(
        *manager.roots, workspace=workspace, cache=False, limits=Limits(cpu_seconds=60)
    )
    assert [each.call("now").structured for each in (manager, cold)] == [1, 1]

    (manager.roots[0] / "s/scripts/now.mjs").write_text(text)
    served, started = manager.call("now"), cold.call("now")

    assert (served.warm, started.warm, served.exit_code) == (True, False, 1)
    assert facts(served) == facts(started)


def test_a_handler_that_never_ends_is_ended_at_its_timeout(manager_of: NewManager) -> None:
    hang = handler("console.log('begun');", FOREVER)
    manager = manager_of({"hang.mjs": hang, "next.mjs": handler("return 1;")})

    result = manager.call("hang", timeout=1)

    assert (result.outcome, result.exit_code, result.code) == ("timed_out", 124, "timeout")
    assert (result.stdout, result.warm) == ("begun\n", True)
    assert manager.call("next").structured == 1


def test_a_handler_may_end_by_itself_when_it_is_asked_to(manager_of: NewManager) -> None:
    asked = "process.on('SIGTERM', () => { console.log('asked'); process.exit(9); });"
    manager = manager_of({"hang.mjs": handler(asked, FOREVER)})

    result = manager.call("hang", timeout=1)

    assert (result.outcome, result.stdout) == ("timed_out", "asked\n")


def test_a_timeout_before_node_is_ready_is_a_timeout(manager_of: NewManager) -> None:
    manager = manager_of({"quick.mjs": handler("return 1;")})

    result = manager.call("quick", timeout=0.001)

    assert (result.outcome, result.structured, result.cold_because) == ("timed_out", None, "")
    assert manager.call("quick").structured == 1


@pytest.mark.promise("warm-8")
@pytest.mark.parametrize("written", ["0\\n", "x", "rr", "9" * 300 + "\\n", "\\n", "1\\n2"])
def test_what_a_handler_writes_to_the_line_of_orders_cannot_hang_its_call(
    manager_of: NewManager, written: str
) -> None:
    script = handler(f"writeSync(4, '{written}');", "return 1;", before=FS)
    manager = manager_of({"meddle.mjs": script, "next.mjs": handler("return 2;")})

    result = manager.call("meddle", timeout=10)

    assert result.outcome in ("ok", "failed")
    assert manager.call("next").structured == 2


def test_a_handler_that_closes_every_descriptor_still_ends(manager_of: NewManager) -> None:
    close = "for (const fd of [1, 2, 4]) closeSync(fd);"
    manager = manager_of({"close.mjs": handler(close, "process.exit(3);", before=FS)})

    result = manager.call("close", timeout=10)

    assert (result.outcome, result.exit_code, result.warm) == ("failed", 3, True)


def test_a_folder_whose_name_is_no_text_is_served_by_a_fresh_node(
    manager_of: NewManager, tmp_path: Path
) -> None:
    roots = manager_of({"where.mjs": handler("return process.cwd().length > 0;")}).roots
    folder = tmp_path / os.fsdecode(b"w\xff")
    folder.mkdir()

    result = SkillManager(*roots, workspace=folder, cache=False).call("where")

    assert (result.outcome, result.structured, result.warm) == ("ok", True, False)
