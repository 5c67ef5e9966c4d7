"""The first call of a script and the tenth: what a prefork server learns shows in none."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from skillpouch import SkillManager
from skillpouch.results import ToolResult

pytestmark = pytest.mark.slow

CALLS = 7  # hints end with the third, pages are noted in the fourth and used from the fifth on
Calls = Callable[..., list[ToolResult]]


@pytest.fixture
def calls(tmp_path: Path) -> Calls:
    """Call a handler several times, with files beside it; each call must be warm."""

    def call(text: str, **files: str) -> list[ToolResult]:
        scripts = tmp_path / "skills/s/scripts"
        scripts.mkdir(parents=True)
        (tmp_path / "w").mkdir()
        (scripts.parent / "SKILL.md").write_text("---\nname: s\ndescription: d\n---\n")
        (scripts / "go.py").write_text(text)
        for name, content in files.items():
            (scripts / f"{name}.py").write_text(content)
        manager = SkillManager(tmp_path / "skills", workspace=tmp_path / "w")
        return [manager.call("s.go", timeout=20) for _ in range(CALLS)]

    return call


def test_hooks_of_a_script_hear_nothing_of_ours(calls: Calls) -> None:
    results = calls(
        "import sys\n"
        "def handler(args):\n"
        "    def hear(event, given):\n"
        "        if event == 'open' and str(given[0]).startswith('/proc'):\n"
        "            sys.exit('no /proc')\n"
        "    sys.addaudithook(hear)\n"
        "    return 1\n"
    )

    assert {(r.outcome, r.stderr, r.warm) for r in results} == {("ok", "", True)}


def test_functions_that_a_script_replaces_are_not_called_after_its_end(calls: Calls) -> None:
    results = calls(
        "import os\n"
        "def handler(args):\n"
        "    def refuse(*_a, **_k):\n"
        "        print('used')\n"
        "        raise SystemExit(7)\n"
        "    os.open = os.read = os.pread = refuse\n"
        "    return 1\n"
    )

    assert {(r.outcome, r.stdout, r.exit_code) for r in results} == {("ok", "", 0)}


def test_what_a_call_leaves_in_main_is_finalised_in_each(calls: Calls) -> None:
    results = calls(
        "import __main__\n"
        "class Thing:\n"
        "    def __del__(self):\n"
        "        print('bye')\n"
        "def handler(args):\n"
        "    __main__.thing = Thing()\n"
    )

    assert [r.stdout for r in results] == ["bye\n"] * CALLS


FINALISED = """
import {loaded}
class Thing:
    def __del__(self):
        print("bye")
thing = Thing()
def look():
    {does}
def handler(args):
    look()
"""


@pytest.mark.parametrize(
    ("loaded", "does"),
    [
        ("signal", "signal.signal(signal.SIGTERM, lambda *_: None)"),
        ("json", "import importlib; importlib.reload(json)"),
        ("sys", "import importlib, os; importlib.reload(os)"),
        ("sys", "import resource"),
        ("sys", "import resource, decimal"),
        ("json, sys", "sys.modules['json'] = sys.modules.pop('json')"),
    ],
)
def test_what_a_script_holds_is_finalised_in_each_call(
    calls: Calls, loaded: str, does: str
) -> None:
    results = calls(FINALISED.format(loaded=loaded, does=does))

    seen = [(r.outcome, r.stdout, r.stderr, r.warm) for r in results]
    assert seen == [("ok", "bye\n", "", True)] * CALLS


def test_a_file_that_a_script_leaves_open_is_whole_after_each_call_that_handles_signals(
    calls: Calls, tmp_path: Path
) -> None:
    results = calls(
        "import gzip, os, signal, sys\n"
        "def handler(args):\n"
        "    global out\n"
        "    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))\n"
        "    out = gzip.open(f'{len(os.listdir())}.gz', 'wt')\n"
        "    out.write('word ' * 1000)\n"
    )

    files = sorted((tmp_path / "w").glob("*.gz"))
    assert [r.outcome for r in results] == ["ok"] * CALLS
    assert [len(gzip.decompress(file.read_bytes())) for file in files] == [5_000] * CALLS


def test_a_trace_names_the_line_on_which_the_runner_calls(calls: Calls) -> None:
    results = calls(
        "import traceback\n"
        "def handler(args):\n"
        "    first = traceback.extract_stack()[-3]\n"
        "    return [first.name, first.line]\n"
    )

    line = 'if __name__ == "__main__" and main():'
    assert [r.structured for r in results] == [["<module>", line]] * CALLS


def test_a_file_with_the_name_of_what_a_prefork_needs_is_imported_in_each_call(
    calls: Calls,
) -> None:
    results = calls(
        "def handler(args):\n"
        "    import resource, sys\n"
        "    return resource.__file__.rpartition('/')[2]\n",
        resource="",
    )

    assert [r.structured for r in results] == ["resource.py"] * CALLS


@pytest.mark.promise("warm-5")
def test_what_a_call_writes_into_shared_memory_slows_no_later_one(calls: Calls) -> None:
    results = calls(
        "import ctypes, os, re\n"
        "def handler(args):\n"
        "    maps = open('/proc/self/maps').read().splitlines()\n"
        "    sizes = [[int(n, 16) for n in line.split()[0].split('-')] for line in maps]\n"
        "    start, end = max(sizes, key=lambda each: each[1] - each[0])\n"
        "    line = b'%d %d 22\\n' % (start, end - start)\n"
        "    for each, (first, last) in zip(maps, sizes):\n"
        "        if ' rw-s ' in each and last - first > 4096:\n"
        "            text = (b' ' * 65536 + line * 9999)[: last - first]\n"
        "            ctypes.memmove(first, text, len(text))\n"
        "    os._exit(0)\n"
    )

    assert {r.outcome for r in results} == {"ok"}
    assert max(r.duration_ms for r in results[1:]) < 5_000
