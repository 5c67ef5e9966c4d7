"""What calls are given: input of all sorts, options of the interpreter, variables, functions."""

import pytest

from skillpouch.execution.command import Ended
from tests.execution.preforked.ways import EXTRA, Given, Ways

pytestmark = pytest.mark.slow

READS = "import sys\ndata = sys.stdin.buffer.read()\nprint(len(data), hash(data) and data[:9])\n"
LOOKS = """
import os, select, stat, sys
print(sys.stdin, sys.stdin.seekable(), sys.stdin.isatty(), stat.S_IFMT(os.fstat(0).st_mode))
print(sys.stdin.errors, sys.stdin.newlines, sys.stdin.line_buffering, sys.stdin.buffer.raw)
print(sys.stdin is sys.__stdin__, select.select([0], [], [], 0)[0], sys.stdin.read(), os.read(0, 1))
input()
"""


@pytest.mark.parametrize(
    "stdin", [b"", b"\0\xff\xfe", b"\r\n\r", b"x" * 70_000, b"0123456789" * 5_000_000]
)
def test_input_arrives_as_it_is(ways: Ways, stdin: bytes) -> None:
    script = ways.write("reads", READS)
    given = Given(stdin=stdin)

    assert [ways.warm(script, given) for _ in range(2)] == [ways.cold(script, given)] * 2


@pytest.mark.parametrize("stdin", [b"", b"\xff\r\n"])
def test_input_looks_as_it_is(ways: Ways, stdin: bytes) -> None:
    script = ways.write("looks", LOOKS)
    given = Given(stdin=stdin)

    assert [ways.warm(script, given) for _ in range(2)] == [ways.cold(script, given)] * 2


def test_input_that_nobody_reads_is_no_error(ways: Ways) -> None:
    script = ways.write("ignores", "print('ok')\n")
    given = Given(stdin=b"x" * 1_000_000)

    assert ways.warm(script, given) == ways.cold(script, given)


OPTIONS = """
'''doc'''
import sys, warnings
print(sys.flags, sys.path, sys.orig_argv, __doc__, __debug__, sys.warnoptions, sys._xoptions)
print(sys.stdout.line_buffering, sys.stdout.write_through, sys.stdin.buffer)
assert False, "asserted"
"""


@pytest.mark.parametrize(
    "options",
    ["-u", "-O", "-OO", "-B", "-E", "-I", "-P", "-s", "-S", "-b", "-bb", "-u -O -I"],
)
def test_options_that_only_set_a_flag_are_kept(ways: Ways, options: str) -> None:
    script = ways.write("options", OPTIONS)
    given = Given(shebang=("python3", *options.split()))

    assert [ways.warm(script, given) for _ in range(2)] == [ways.cold(script, given)] * 2


@pytest.mark.parametrize("options", ["-W error", "-X dev", "-v", "-q", "-i", "-x", "-X utf8=0"])
def test_other_options_are_for_a_fresh_python(ways: Ways, options: str) -> None:
    script = ways.write("other_options", "#!\nimport sys\nprint(sys.flags)\n")
    given = Given(shebang=("python3", *options.split()))

    ended = ways.end(script, given)

    assert not ended.warm
    assert _without_imports(ended) == _without_imports(ways.end(script, given, warm=False))


def _without_imports(ended: Ended) -> tuple[int | None, bytes]:
    return ended.exit_code, ended.stdout.data


@pytest.mark.parametrize(
    "variable",
    ["PYTHONHASHSEED=0", "PYTHONUNBUFFERED=1", "PYTHONIOENCODING=latin-1", "PYTHONOPTIMIZE=1",
     "PYTHONWARNINGS=error", "LC_ALL=C", "LANG=C", "OMP_NUM_THREADS=1", "PYTHONUTF8=0"],
)  # fmt: skip
def test_variables_that_are_read_at_start_are_for_a_fresh_python(ways: Ways, variable: str) -> None:
    script = ways.write("variables", "import sys\nprint(sys.flags, sys.stdout)\nprint('\\xe9')\n")
    name, _, value = variable.partition("=")
    given = Given(env={**EXTRA, name: value})

    ended = ways.end(script, given)

    assert not ended.warm
    assert ways.seen(ended) == ways.cold(script, given)


def test_variables_and_words_of_one_call_are_not_those_of_the_next(ways: Ways) -> None:
    script = ways.write(
        "next", "import os, sys\nprint(sys.argv, sorted(os.environ), os.getenv('A'))\n"
    )
    first = Given(words=("1",), env={"A": "x", "B": "y", "TZ": "Asia/Tokyo"})
    second = Given(words=(), env={"A": "z"})

    assert [ways.warm(script, given) for given in (first, second, first)] == [
        ways.cold(script, given) for given in (first, second, first)
    ]


FUNCTIONS = {
    "value": "def handler(args):\n    print('out')\n    return {'got': args}\n",
    "raises": "def handler(args):\n    return {}['missing']\n",
    "raises_in_sibling": "import sibling\ndef handler(args):\n    return sibling.f()\n",
    "raises_at_import": "1 / 0\ndef handler(args):\n    return 1\n",
    "exits": "import sys\ndef handler(args):\n    sys.exit(5)\n",
    "async": "async def handler(args):\n    return 3\n",
    "not_json": "def handler(args):\n    return object\n",
    "no_function": "print('no function')\n",
    "syntax": "def handler(args:\n",
    "warns": "import re\ndef handler(args):\n    return 1 is 1 and re.findall('\\d', 'a1')\n",
    "pickles": (
        "import pickle\nclass C:\n    pass\n"
        "def handler(args):\n    return repr(type(pickle.loads(pickle.dumps(C()))))\n"
    ),
    "looks": (
        "import inspect, sys\ndef handler(args):\n"
        "    return [__name__, __file__, inspect.getsource(handler), sys.argv, sys.path,\n"
        "            sorted(globals()), sys.modules[__name__].handler is handler]\n"
    ),
    "builtins": "def handler(args):\n    return type(__builtins__).__name__\n",
    "environment": "import os\ndef handler(args):\n    return dict(os.environ)\n",
    "descriptors": "import os\ndef handler(args):\n    return os.listdir('/proc/self/fd')\n",
    "thread": (
        "import threading, time\ndef handler(args):\n"
        "    threading.Thread(target=lambda: (time.sleep(0.1), print('late'))).start()\n"
        "    return 1\n"
    ),
    "unclosed": "def handler(args):\n    global f\n    f = open('x', 'w')\n    f.write('y')\n",
    "handles_signals": (
        "import signal\nclass C:\n    def __del__(self):\n        print('bye')\nc = C()\n"
        "def handler(args):\n    signal.signal(15, lambda *_: None)\n"
    ),
    "reloads": (
        "import importlib, json\nclass C:\n    def __del__(self):\n        print('bye')\n"
        "c = C()\ndef handler(args):\n    importlib.reload(json)\n"
    ),
    "at_exit": "import atexit\ndef handler(args):\n    atexit.register(print, 'bye')\n",
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_called_as_a_fresh_python_calls_it(ways: Ways, name: str) -> None:
    script = ways.write(f"function_{name}", FUNCTIONS[name])
    given = Given(convention="handler", stdin=b'{"a": 1}')

    cold = ways.end(script, given, warm=False)
    cold_seen = ways.seen(cold)

    for _ in range(2):
        ended = ways.end(script, given)
        assert (ended.warm, ended.answer) == (name != "syntax", cold.answer)
        assert ways.seen(ended) == cold_seen


def test_a_main_function_is_called_as_a_fresh_python_calls_it(ways: Ways) -> None:
    text = "from pathlib import Path\ndef main(a: int, p: Path):\n    return repr((a, p))\n"
    script = ways.write("function_main", text)
    given = Given(convention="main", stdin=b'{"a": 1, "p": "y"}')

    cold = ways.end(script, given, warm=False)
    warm = ways.end(script, given)

    assert (warm.warm, warm.answer) == (True, cold.answer)
    assert cold.answer == b"\"(1, PosixPath('y'))\""
