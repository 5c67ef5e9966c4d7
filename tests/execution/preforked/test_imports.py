"""Imports that do more than import: loaded ahead where nothing shows, else with each call."""

from typing import Literal

import pytest

from tests.execution.preforked.ways import Given, Ways

pytestmark = pytest.mark.slow

INSTALLED = Given(installed=True)
FAILED = "its imports fail before the call, as those that start threads do"

# What a module does when it is imported → why its scripts are not forked.
UNFIT = {
    "prints": ("print('loaded')", "its imports print"),
    "prints_much": ("print('x' * 300_000)", "its imports print"),
    "warns": ("import warnings; warnings.warn('old')", "its imports print"),
    "starts_a_thread": (
        "import threading; threading.Thread(target=print, daemon=True).start()",
        FAILED,
    ),
    "moves": ("import os; os.chdir('/usr')", "its imports change the current folder"),
    "opens": ("kept = open(__file__)", "its imports leave files open"),
    "exits": ("import sys; sys.exit(3)", FAILED),
    "raises": ("raise ValueError('cannot be loaded')", FAILED),
    "crashes": ("import ctypes; ctypes.string_at(0)", "its imports end the interpreter"),
    "leaves": ("import os; os._exit(4)", "its imports end the interpreter"),
    "is_killed": ("import os; os.kill(os.getpid(), 9)", "its imports end the interpreter"),
    "reads_all_variables": (
        "import os; found = dict(os.environ)",
        "its imports read all variables, and calls have their own",
    ),
    "keeps_random_numbers": (
        "import random; found = random.Random().random() < 2; kept = random.Random()",
        "its imports make random number generators of their own",
    ),
}

# What a module does when it is imported, and every call would see anyway.
FIT = {
    "is_quiet": "found = 1",
    "is_missing_something": "try:\n    import nothing_like_it\nexcept ImportError:\n    found = 0",
    "sets_a_variable": "import os; os.environ['SET_BY_IMPORT'] = '1'; os.environ['TERM'] = 'mine'",
    "reads_a_shared_variable": "import os; found = os.environ['LANG']",
    "ends_with_words": "import atexit; atexit.register(print, 'from an import')",
    "sets_the_mask": "import os; os.umask(0o77)",
    "sets_limits": "import sys; sys.setrecursionlimit(500)",
    "sets_filters": "import warnings; warnings.simplefilter('error')",
    "sets_hooks": "import sys; sys.excepthook = lambda *a: print('hook', a[1])",
    "handles_signals": "import signal; signal.signal(15, lambda *a: print('term'))",
    "logs": "import logging; logging.basicConfig(level=10, format='%(message)s')",
    "patches": "import json; json.dumps = lambda x: 'patched'",
    "goes_first_in_the_path": "import sys; sys.path.insert(0, '/nowhere')",
    "extends_the_path": "import sys; sys.path.append('/nowhere')",
    "seeds": "import random; random.seed(5)",
}

SCRIPT = """
import {name}
import json, logging, os, signal, sys
logging.info("info")
print(getattr({name}, "found", None), sorted(os.environ.items()), os.getcwd(), sys.path)
print(sys.getrecursionlimit(), json.dumps([1]), oct(os.umask(0)), signal.getsignal(15) == 0)
os.kill(os.getpid(), 15)
raise ValueError("end")
"""


@pytest.mark.parametrize("name", UNFIT)
def test_an_import_that_shows_is_made_by_each_call(ways: Ways, name: str) -> None:
    text, why = UNFIT[name]
    ways.install(name, text)
    script = ways.write(name, SCRIPT.format(name=name))

    cold = ways.cold(script, INSTALLED)
    ended = [ways.end(script, INSTALLED) for _ in range(2)]

    assert [(each.warm, each.cold_because) for each in ended] == [(False, why)] * 2
    assert ways.seen(ended[-1]) == cold


@pytest.mark.parametrize("name", FIT)
def test_an_import_that_every_call_makes_may_leave_what_it_likes(ways: Ways, name: str) -> None:
    ways.install(name, FIT[name])
    script = ways.write(name, SCRIPT.format(name=name))

    cold = ways.cold(script, INSTALLED)

    assert [ways.warm(script, INSTALLED) for _ in range(3)] == [cold] * 3


@pytest.mark.parametrize("convention", ["argv", "handler"])
def test_an_import_reads_the_variables_of_the_call(
    ways: Ways, convention: Literal["argv", "handler"]
) -> None:
    ways.install("reads_a_variable", "import os; found = os.environ.get('K')")
    text = "import reads_a_variable, sys\ndef handler(args):\n    return show()\n"
    text += (
        "def show():\n    print(reads_a_variable.found, sys.argv, input.__name__)\n    return 1\n"
    )
    script = ways.write(f"reads_{convention}", text + "if __name__ == '__main__':\n    show()\n")

    for value in ("one", "two"):
        given = Given(installed=True, env={"K": value}, convention=convention, stdin=b"{}")
        cold = ways.end(script, given, warm=False)
        cold_seen = ways.seen(cold)
        ended = ways.end(script, given)
        assert (ways.seen(ended), ended.answer) == (cold_seen, cold.answer)
        assert ended.stdout.data.startswith(value.encode())


def test_an_import_that_hangs_times_out_like_a_call(ways: Ways) -> None:
    ways.install("hangs", "import time; time.sleep(1000)")
    script = ways.write("hangs", "import hangs\n")

    ended = ways.end(script, Given(installed=True, timeout_seconds=1))

    assert (ended.outcome, ended.code) == ("timed_out", "timeout")


SOMETIMES = """
import sys
def work():
    if sys.argv[1] == "yes":
        import {name}
        print({name}.found)
work()
print("end", "{name}" in globals())
"""


@pytest.mark.parametrize(
    "text",
    [
        "import atexit; found = 1; atexit.register(print, 'from an import')",
        "import os; found = 2; os.environ['SET_BY_IMPORT'] = '1'",
        "import os; found = os.environ.get('K')",
        "import sys; found = 3; sys.excepthook = None",
        "import signal; found = 4; signal.signal(2, signal.SIG_IGN)",
        "import logging; found = 5; logging.basicConfig()",
        "print('loaded'); found = 6",
        "found = 7",
    ],
)
def test_an_import_that_some_calls_make_does_not_show_in_others(ways: Ways, text: str) -> None:
    name = f"sometimes_{abs(hash(text))}"
    ways.install(name, text)
    script = ways.write(name, SOMETIMES.format(name=name) + "import os; print(len(os.environ))\n")
    given = {word: Given(installed=True, words=(word,)) for word in ("yes", "no")}
    cold = {word: ways.cold(script, given[word]) for word in given}

    for word in ("yes", "no", "yes", "no", "no", "yes"):
        assert ways.warm(script, given[word]) == cold[word]


def test_what_calls_load_is_loaded_for_the_next(ways: Ways) -> None:
    ways.install("learned", "found = 1")
    text = (
        "import sys\n"
        "def work():\n    import learned, colorsys\n"
        "print([name in sys.modules for name in ('learned', 'colorsys')])\n"
        "work()\n"
    )
    script = ways.write("learned", text)

    seen = [ways.warm(script, INSTALLED).stdout for _ in range(3)]

    assert seen[0] == b"[False, False]\n"
    assert seen[-1] == b"[True, True]\n"


def test_what_an_import_notes_is_noted_once_and_that_is_a_known_limit(ways: Ways) -> None:
    ways.install("notes", "import sys, time\nfound = (len(sys.argv), time.time_ns())\n")
    script = ways.write("notes", "import notes\nprint(notes.found)\n")

    first, second = (ways.warm(script, INSTALLED).stdout for _ in range(2))

    assert first == second
    assert first.startswith(b"(1, ")


def test_the_end_of_a_preloaded_module_is_not_seen_and_that_is_a_known_limit(ways: Ways) -> None:
    text = "class A:\n    def __del__(self):\n        print('gone')\nkept = A()\n"
    ways.install("is_taken_apart", text)
    script = ways.write("is_taken_apart", "import is_taken_apart\n")

    cold, warm = ways.cold(script, INSTALLED), ways.warm(script, INSTALLED)

    assert (cold.stdout, warm.stdout) == (b"gone\n", b"")
