import pytest

from skillpouch.signatures.argv import ArgvArgument, ArgvPlan, FixedWord
from skillpouch.signatures.usage_lines import (
    Planned,
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
