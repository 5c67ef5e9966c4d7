"""Whether a script may read any input, and what a file defines in which nothing runs."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillpouch.signatures import read_signature
from skillpouch.signatures.purpose import what_it_defines
from skillpouch.signatures.shebang import Language


def reads_nothing(text: str, language: Language) -> bool:
    return read_signature(text, language).takes_nothing


PYTHON = [
    "import sys\nprint(sys.stdin.read())",
    "import sys as s\nprint(s.stdin)",
    "name = input('? ')",
    "import fileinput\nprint(list(fileinput.input()))",
    "print(open(0).read())",
    "print(open(file=0).read())",
    "print(open('/dev/stdin').read())",
    "import os\nprint(os.environ['TOOL_ARGS'])",
    "import os\nprint(os.read(0, 9))",
    "import subprocess\nsubprocess.run(['cat'])",
    "import subprocess\nsubprocess.run(command)",
    "import subprocess\nsubprocess.check_output('sort', shell=True)",
    "import subprocess as sp\nsp.run(['ls'])",
    "from subprocess import run\nrun(['ls'])",
    "import os\nos.system('ls')",
    "import sys\nprint(sys.argv)",
    "import os, argparse\nparse()",
    "exec(text)",
    "import importlib\nimportlib.import_module(name)",
    "import runpy\nrunpy.run_path('x.py')",
    "import asyncio\nasyncio.create_subprocess_exec('cat')",
    "import sys\nsys.path.insert(0, '..')\nfrom shared import main\nmain()",
    "from rich.prompt import Prompt\nPrompt.ask('?')",
]
SHELL = [
    "cat",
    "cat -",
    "cat > out.txt",
    "read -r line",
    "while read -r line; do echo $line; done",
    "jq .",
    "jq -r .name",
    "grep -A 3 word",
    "sort -k 2",
    "python3 -",
    "python3 other.py",
    "bash -s",
    'eval "$X"',
    "curl -d @- example.org",
    "git apply",
    "xargs rm",
    "cat /dev/stdin",
    'echo "$TOOL_ARGS"',
    '"$TOOL" x',
    "mapfile -t lines",
    "tee out.txt",
    "some-program",
    "f() { cat; }\nf",
    "select x in a b; do echo $x; done",
]
JAVASCRIPT = [
    "process.stdin.on('data', x);",
    "fs.readFileSync(0, 'utf8')",
    "fs.readFileSync('/dev/stdin')",
    "console.log(process.argv[2])",
    "const { argv } = process;",
    "spawn('cat', [], { stdio: 'inherit' })",
    "console.log(process.env.TOOL_ARGS)",
    "prompt('Name?')",
    "require(name)()",
    "const rl = require('readline')",
]
RUBY = [
    "puts gets",
    "puts STDIN.read",
    "puts $stdin.read",
    "puts ARGF.read",
    "puts ARGV[0]",
    "`cat`",
]
PERL = ["print <STDIN>;", "print while <>;", "print @ARGV;", "system('cat');", "print shift;"]
READING: list[tuple[Language, str]] = [
    *(("python", text) for text in PYTHON),
    *(("shell", text) for text in SHELL),
    *(("javascript", text) for text in JAVASCRIPT),
    *(("typescript", text) for text in JAVASCRIPT),
    *(("ruby", text) for text in RUBY),
    *(("perl", text) for text in PERL),
]
DEAF: list[tuple[Language, str]] = [
    ("python", "print('hello')"),
    ("python", "import re, json\nPATTERN = re.compile('x')\nprint(PATTERN)"),
    ("python", "import subprocess\nsubprocess.run(['git', 'status'], check=True)"),
    ("python", "import subprocess\nsubprocess.run(command, stdin=subprocess.DEVNULL)"),
    ("python", "import subprocess\nsubprocess.run(['jq', '.'], input=text, text=True)"),
    ("python", "import os\nprint(os.environ.get('HOME'), os.getcwd())"),
    ("python", "model.eval()\nmodel.compile()\nprint(model)"),
    ("shell", "set -euo pipefail\necho hello\nmkdir -p out && ls out | sort -r"),
    ("shell", 'cat > "$OUT" << EOF\nhello\nEOF'),
    ("shell", "grep -q word notes.txt && echo found || exit 1"),
    ("shell", 'say() { echo "$1"; }\nsay hi'),
    ("shell", "find . -name '*.md' | while read -r file; do echo \"$file\"; done"),
    ("shell", "if command -v git > /dev/null; then git status; fi"),
    ("javascript", "console.log(process.cwd())"),
    ("javascript", "if (process.argv[1] === here) console.log(1)"),
    ("ruby", "puts 'hello'"),
    ("perl", "use strict;\nprint 'hello';"),
]


@pytest.mark.parametrize(("language", "text"), READING)
def test_whatever_could_read_input_counts_as_reading(language: Language, text: str) -> None:
    assert not reads_nothing(text, language)


@pytest.mark.parametrize(("language", "text"), DEAF)
def test_a_script_without_any_such_word_reads_nothing(language: Language, text: str) -> None:
    assert reads_nothing(text, language)


@pytest.mark.parametrize(
    ("language", "text", "is_text"),
    [
        ("python", "import sys\nfor line in sys.stdin.readlines():\n    print(line)", True),
        ("python", "import json, sys\nprint(json.load(sys.stdin))", False),
        ("python", "from lib import load_json\nimport sys\nprint(load_json(sys.stdin))", False),
        ("python", "import sys\nfor n, line in enumerate(sys.stdin):\n    print(n, line)", True),
        ("python", "import sys\nprint(len(sys.stdin.read().splitlines()))", True),
        ("python", "import sys\nprint(sys.stdin.read())", False),
        ("javascript", "const lines = rl.createInterface({ input: process.stdin })", True),
        ("javascript", "for await (const line of process.stdin) console.log(line)", True),
        ("javascript", "console.log(JSON.parse(require('fs').readFileSync(0)))", False),
        ("ruby", "STDIN.each_line { |line| puts line }", True),
        ("perl", "while (my $line = <STDIN>) { print $line; }", True),
        ("python", "print('hello')", False),
    ],
)
def test_a_script_that_reads_lines_and_no_json_reads_text(
    language: Language, text: str, is_text: bool
) -> None:
    assert read_signature(text, language).reads_lines is is_text


def takes_from_input(command: str, folder: Path) -> bool:
    """Run a command; one that reads its input moves the place in the file that we share."""
    (folder / "notes.txt").write_text("a word\n")
    (folder / "input").write_text("untouched\n" * 100)
    with (folder / "input").open("rb", buffering=0) as shared:
        subprocess.run(
            ["bash", "-c", command],
            stdin=shared,
            cwd=folder,
            env={"PATH": "/usr/bin:/bin", "OUT": "made.txt"},
            capture_output=True,
            check=False,
        )
        return shared.tell() > 0


@pytest.mark.parametrize("text", [text for language, text in DEAF if language == "shell"])
def test_what_is_said_to_read_nothing_leaves_its_input_alone(text: str, tmp_path: Path) -> None:
    assert not takes_from_input(text, tmp_path)


@settings(max_examples=30)
@given(
    st.sampled_from(
        ["cat", "head", "tail", "wc", "grep", "sed", "awk", "sort", "tr", "cut", "tee"]
    ),
    st.lists(
        st.sampled_from(["-n", "-1", "-n1", "-c", "-r", "x", "-", "1", "-e", "'p'", "notes.txt"]),
        max_size=3,
    ),
)
def test_a_filter_that_is_said_to_read_nothing_does_not(
    tmp_path_factory: pytest.TempPathFactory, name: str, words: list[str]
) -> None:
    text = " ".join([name, *words])

    if reads_nothing(text, "shell"):
        assert not takes_from_input(text, tmp_path_factory.getbasetemp())


@given(st.text(max_size=300), st.sampled_from(["python", "shell", "javascript", "ruby", "perl"]))
def test_any_text_gives_an_answer(text: str, language: Language) -> None:
    assert reads_nothing(text, language) in (True, False)
    words, line = what_it_defines(text, language)
    assert words
    assert line is None or 1 <= line <= text.count("\n") + 1


def test_asking_a_person_or_an_unreadable_parser_is_reading() -> None:
    assert not read_signature("import getpass\nprint(getpass.getpass())\n", "python").takes_nothing
    assert not read_signature("import fire\nfire.Fire(x)\n", "python").takes_nothing
    assert read_signature("print(1)\n", "python").takes_nothing


@pytest.mark.parametrize(
    ("language", "text", "words", "line"),
    [
        ("python", "", "the file is empty", None),
        ("python", "# Only a remark.\n", "it has only comments, imports or values", None),
        ("python", "import os\n\ndef a(): ...\nclass B: ...\n", "it only defines a, B", 3),
        (
            "shell",
            "# Shared.\nlog() { echo; }\nfunction die { exit 1; }\n",
            "it only defines log",
            2,
        ),
        (
            "javascript",
            "const a = 1;\nexport function b() {}\nclass C {}\nlet d;\nmodule.exports = { a };\n",
            "it only defines a, b, C and 1 more",
            1,
        ),
        ("ruby", "module A\n  def b\n  end\nend\n", "it only defines A, b", 1),
        ("perl", "package A;\nsub b { 1 }\n1;\n", "it only defines A, b", 1),
    ],
)
def test_a_file_in_which_nothing_runs_says_what_it_defines(
    language: Language, text: str, words: str, line: int | None
) -> None:
    signature = read_signature(text, language)

    assert not signature.has_entry
    assert (signature.defines, signature.defines_line) == (words, line)
