import contextlib
import re
import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillpouch.signatures.argv import ArgvArgument, ArgvPlan, FixedWord
from skillpouch.signatures.command_line import CommandLineError
from skillpouch.signatures.usage_lines import (
    Planned,
    invocation_in,
    planned,
    usage_fits,
    usage_lines,
)

SCRIPT = "scripts/extract.py"
PLAN: ArgvPlan = (
    ArgvArgument(name="file"),
    ArgvArgument(name="output", flag="--output"),
    ArgvArgument(name="color", flag="--color", action="boolean_optional", off_flag="--no-color"),
)


@pytest.mark.parametrize(
    "line",
    [
        "python scripts/extract.py in.pdf",
        "python3 -u scripts/extract.py in.pdf",
        "./scripts/extract.py in.pdf",
        "scripts/extract.py in.pdf",
        "scripts/extract.py",
        "uv run scripts/extract.py in.pdf",
        "uv run --with pypdf scripts/extract.py in.pdf",
        "python {baseDir}/scripts/extract.py in.pdf",
        'python "${CLAUDE_SKILL_DIR}/scripts/extract.py" in.pdf',
        "python ~/.claude/skills/pdf/scripts/extract.py in.pdf",
        "KEY=1 python scripts/extract.py in.pdf",
        "cat in.pdf | python scripts/extract.py > out.txt",
        ".venv/bin/python scripts/extract.py in.pdf",
        "python3 extract.py in.pdf",
        "cd scripts && ./extract.py in.pdf",
        "python3.12 scripts/extract.py in.pdf",
    ],
)
@pytest.mark.parametrize("language", ["bash", "sh", "console", ""])
def test_a_command_in_a_code_block_is_a_usage_line(line: str, language: str) -> None:
    body = f"# Extract\n\n```{language}\n{line}\n```\n"

    assert usage_lines(body, SCRIPT) == (line,)


@pytest.mark.parametrize(
    "line",
    [
        "cat scripts/extract.py",
        "chmod +x scripts/extract.py",
        "python scripts/other.py",
        "python scripts/extract.pyc",
        "# python scripts/extract.py",
        "ls scripts/",
    ],
)
def test_a_command_that_does_not_run_the_script_is_none(line: str) -> None:
    assert usage_lines(f"```bash\n{line}\n```\n", SCRIPT) == ()


def test_prompts_are_stripped_and_continued_lines_joined() -> None:
    body = (
        "```console\n$ python scripts/extract.py in.pdf \\\n    --output out.txt\nextracted\n```\n"
    )

    assert usage_lines(body, SCRIPT) == ("python scripts/extract.py in.pdf --output out.txt",)


def test_code_spans_are_read_when_they_are_commands() -> None:
    body = "Run `python scripts/extract.py FILE`; see `scripts/extract.py`.\n"

    assert usage_lines(body, SCRIPT) == ("python scripts/extract.py FILE",)


def test_blocks_in_other_languages_are_not_read() -> None:
    body = "```python\npython scripts/extract.py\n```\n\n~~~json\npython scripts/extract.py\n~~~\n"

    assert usage_lines(body, SCRIPT) == ()


def test_a_bare_name_that_could_be_another_file_is_not_taken() -> None:
    body = "```\npython extract.py a\npython tools/extract.py b\n```\n"

    assert usage_lines(body, SCRIPT) == ()


def test_lines_are_few_short_and_different() -> None:
    commands = "\n".join(f"python scripts/extract.py {number}" for number in range(10))
    long = f"python scripts/extract.py {'x' * 500}"
    body = f"```\n{long}\n{long}\n{commands}\n```\n"

    lines = usage_lines(body, SCRIPT)

    assert lines == (
        long[:400],
        *(f"python scripts/extract.py {number}" for number in range(4)),
    )


def test_a_block_that_is_never_closed_ends_with_the_text() -> None:
    assert usage_lines("```bash\npython scripts/extract.py a", SCRIPT) == (
        "python scripts/extract.py a",
    )


@pytest.mark.parametrize(
    "line",
    [
        "python scripts/extract.py in.pdf --output out.txt",
        "python scripts/extract.py in.pdf --output=out.txt --no-color",
        "python scripts/extract.py in.pdf --out out.txt",
        "python scripts/extract.py in.pdf [--output FILE]",
        "python scripts/extract.py -o out.txt -5",
        "python scripts/extract.py --help",
        "python scripts/extract.py in.pdf -- --other",
        "python scripts/extract.py in.pdf | jq --raw-output .",
        "python --version && python scripts/extract.py in.pdf",
        "python scripts/extract.py 'in.pdf",
        "python scripts/other.py --other",
        "",
    ],
)
def test_a_line_that_fits_or_cannot_be_judged_is_no_problem(line: str) -> None:
    assert usage_fits(line, PLAN, SCRIPT) == ""


@pytest.mark.parametrize(
    "line",
    [
        "python scripts/extract.py in.pdf --pages 1-3",
        "python scripts/extract.py --pages=1-3 in.pdf",
        "python scripts/extract.py in.pdf [--pages RANGE]",
    ],
)
def test_an_unknown_flag_is_named(line: str) -> None:
    assert usage_fits(line, PLAN, SCRIPT) == (
        "SKILL.md shows the flag --pages, which the script does not have"
    )


def test_a_script_that_takes_any_words_takes_any_flag() -> None:
    plan = (ArgvArgument(name="args", nargs="*"),)

    assert usage_fits("bash scripts/x.sh --anything", plan, "scripts/x.sh") == ""


def test_a_line_for_another_sub_command_is_not_judged() -> None:
    plan: ArgvPlan = (FixedWord(text="add"), ArgvArgument(name="name", flag="--name"))

    assert usage_fits("python scripts/x.py remove --force", plan, "scripts/x.py") == ""
    assert usage_fits("python scripts/x.py add --force", plan, "scripts/x.py") != ""


COMMANDS = [("add",), ("list",), ("db", "list")]
SHOWN = """```bash
python scripts/extract.py add --title list
python scripts/extract.py --store notes.db list
python scripts/extract.py db --quiet list
python scripts/extract.py --help
```
"""


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (("add",), "python scripts/extract.py add --title list"),
        (("list",), "python scripts/extract.py --store notes.db list"),
        (("db", "list"), "python scripts/extract.py db --quiet list"),
        ((), "python scripts/extract.py --help"),
    ],
)
def test_a_line_belongs_to_the_sub_command_that_it_shows(
    command: tuple[str, ...], line: str
) -> None:
    assert usage_lines(SHOWN, SCRIPT, COMMANDS, command) == (line,)


def test_lines_of_other_sub_commands_do_not_use_up_the_room() -> None:
    others = "".join(f"python scripts/extract.py add n{number}\n" for number in range(9))
    body = f"```bash\n{others}python scripts/extract.py list\n```\n"

    assert usage_lines(body, SCRIPT, COMMANDS, ("list",)) == ("python scripts/extract.py list",)


def test_a_later_positional_needs_the_earlier_ones_that_have_no_default() -> None:
    def optional(name: str, *, skippable: bool = False, **schema: str) -> Planned:
        argument = ArgvArgument(name=name, nargs="?", skippable=skippable)
        return Planned(argument, {"type": "string", **schema})

    first, second = optional("a"), optional("b")
    last = Planned(ArgvArgument(name="c", nargs="*"), {"type": "array"})
    schema = planned("", [first, second, last]).input_schema
    filled = planned("", [optional("a", skippable=True), optional("b", default="x"), last])

    assert schema
    assert schema["dependentRequired"] == {"b": ["a"], "c": ["a", "b"]}
    assert filled.input_schema
    assert "dependentRequired" not in filled.input_schema


SCRIPTS = ("scripts/x.py", "scripts/deep/run.sh", "scripts/a/same.py", "scripts/b/same.py")
HOME = "/skills/pdf"


@pytest.mark.parametrize(
    "line",
    [
        "python scripts/x.py in.csv --mode fast",
        "python3 -u scripts/x.py in.csv --mode fast",
        "uv run scripts/x.py in.csv --mode fast",
        "uv run --script scripts/x.py in.csv --mode fast",
        "uv run --with pandas python scripts/x.py in.csv --mode fast",
        "./scripts/x.py in.csv --mode fast",
        "x.py in.csv --mode fast",
        "$ python scripts/x.py in.csv --mode fast  # as an example",
        "cd scripts && python x.py in.csv --mode fast",
        'cd "$SKILL_DIR" && python scripts/x.py in.csv --mode fast',
        "MODE=1 python scripts/x.py in.csv --mode fast",
        "export MODE=1; env A=b python scripts/x.py in.csv --mode fast",
        "python ${CLAUDE_PLUGIN_ROOT}/skills/pdf/scripts/x.py in.csv --mode fast",
        'python "$SKILL_DIR/scripts/x.py" in.csv --mode fast',
        "python {baseDir}/scripts/x.py in.csv --mode fast",
        "python <path-to-skill>/scripts/x.py in.csv --mode fast",
        "python ~/.claude/skills/pdf/scripts/x.py in.csv --mode fast",
        "python -m scripts.x in.csv --mode fast",
        "python scripts/x.py \\\n  in.csv \\\n  --mode fast",
        "python scripts/x.py 'in.csv' --mode \"fast\" 2>&1",
        "python scripts/x.py in.csv --mode f\\ast 2>/dev/null",
    ],
)
def test_a_line_says_which_script_it_runs_with_which_words(line: str) -> None:
    found = invocation_in(line, SCRIPTS, HOME)

    assert (found.script, found.words) == ("scripts/x.py", ("in.csv", "--mode", "fast"))


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("{baseDir}/scripts/x.py {baseDir}/assets/t.html", "/skills/pdf/assets/t.html"),
        ("$ANY/scripts/x.py --t=$ANY/assets/t.html", "--t=/skills/pdf/assets/t.html"),
        ("python scripts/x.py ${CLAUDE_SKILL_DIR}/a", "/skills/pdf/a"),
        ("python scripts/x.py <path-to-skill>/a", "/skills/pdf/a"),
        ("python scripts/x.py 'a $b *'", "a $b *"),
        ('python scripts/x.py "a \\$b"', "a $b"),
        ("python scripts/x.py ''", ""),
        ("python scripts/x.py '<a>'", "<a>"),
    ],
)
def test_only_the_folder_of_the_skill_is_put_into_the_words(line: str, word: str) -> None:
    assert invocation_in(line, SCRIPTS, HOME).words == (word,)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("python scripts/x.py a > out", "'>' is for a shell"),
        ("python scripts/x.py < in", "'<' is for a shell"),
        ("python scripts/x.py $(date)", "'(' is for a shell"),
        ("python scripts/x.py a | head", "'head' is another command"),
        ("pip install x && python scripts/x.py a", "'pip install x' is another command"),
        ("python scripts/x.py a; rm -rf b", "'rm -rf b' is another command"),
        ("python scripts/x.py *.csv", "'*.csv' is to be replaced"),
        ("python scripts/x.py $FILE", "'$FILE' is to be replaced"),
        ("python scripts/x.py `date`", "'`date`' is to be replaced"),
        ("python scripts/x.py a{1,2}", "'a{1,2}' is to be replaced"),
        ("python scripts/x.py ~/a", "'~/a' is to be replaced"),
        ("python scripts/x.py <input>", "'<input>' is to be replaced"),
        ("python scripts/x.py [options]", "'[options]' is to be replaced"),
        ("python scripts/x.py {baseDir}/$X", "'{baseDir}/$X' is to be replaced"),
        ("python scripts/x.py 'a", "a quote is never closed"),
        ("python same.py", "'same.py' may be scripts/a/same.py or scripts/b/same.py"),
        ("python other.py scripts/x.py.bak", "the line runs none of its scripts"),
        ("cat scripts/x.py", "the line runs none of its scripts"),
        ("", "the line runs none of its scripts"),
    ],
)
def test_a_line_that_is_more_than_a_call_is_refused(line: str, problem: str) -> None:
    with pytest.raises(CommandLineError, match=re.escape(problem)):
        invocation_in(line, SCRIPTS, HOME)


def test_a_line_says_which_variables_it_sets_and_where_it_goes() -> None:
    found = invocation_in("A=1 python scripts/x.py B=2", SCRIPTS, HOME)

    assert (found.words, found.sets) == (("B=2",), ("A",))
    assert invocation_in("cd scripts/b && ./same.py", SCRIPTS, HOME).script == "scripts/b/same.py"


@settings(deadline=None)
@given(st.text("abx/ .-'\"\\$&|;<>{}[]()*~#=\n", max_size=40))
def test_any_text_is_a_call_or_refused(text: str) -> None:
    with contextlib.suppress(CommandLineError):
        invocation_in(f"python scripts/x.py {text}", SCRIPTS, HOME)


@settings(deadline=None)
@given(st.lists(st.text(max_size=8).filter(lambda word: "\0" not in word), max_size=4))
def test_quoted_words_are_read_back_unchanged(words: list[str]) -> None:
    line = f"python scripts/x.py {shlex.join(words)}"

    assert invocation_in(line, SCRIPTS, HOME).words == tuple(words)
