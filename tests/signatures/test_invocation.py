import contextlib
import re
import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillpouch.signatures.command_line import CommandLineError
from skillpouch.signatures.invocation import SkillFolder, invocation_in
from skillpouch.signatures.shebang import language_of

PATHS = (
    *("scripts/x.py", "scripts/deep/run.sh", "scripts/a/same.py", "scripts/b/same.py"),
    *("scripts/app.js", "scripts/typed.ts"),
)
SCRIPTS = {path: language_of(path) for path in PATHS}
HOME = SkillFolder("/skills/pdf", skill="pdf-tools")


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
        "python <skill>/scripts/x.py in.csv --mode fast",
        "python SKILL_PATH/scripts/x.py in.csv --mode fast",
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
        ("$ANY/pdf/scripts/x.py --t=$ANY/pdf/assets/t.html", "--t=/skills/pdf/assets/t.html"),
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
        ("cat scripts/x.py", "'cat' does not just run scripts/x.py"),
        ("", "the line runs none of its scripts"),
    ],
)
def test_a_line_that_is_more_than_a_call_is_refused(line: str, problem: str) -> None:
    with pytest.raises(CommandLineError, match=re.escape(problem)):
        invocation_in(line, SCRIPTS, HOME)


def test_a_line_says_which_variables_it_sets_and_where_it_goes() -> None:
    found = invocation_in("A=1 python scripts/x.py B=2", SCRIPTS, HOME)

    assert (found.words, found.sets) == (("B=2",), ("A",))
    assert invocation_in("export A=1; ./scripts/x.py", SCRIPTS, HOME).sets == ("A",)
    assert invocation_in("cd scripts/b && ./same.py", SCRIPTS, HOME).script == "scripts/b/same.py"


@pytest.mark.parametrize(
    ("line", "script"),
    [
        ("python3.11 scripts/x.py", "scripts/x.py"),
        ("python -uB scripts/x.py", "scripts/x.py"),
        (".venv/bin/python scripts/x.py", "scripts/x.py"),
        ("exec env python3 scripts/x.py", "scripts/x.py"),
        ("set -euo pipefail; python scripts/x.py", "scripts/x.py"),
        ("poetry run python -m scripts.x", "scripts/x.py"),
        ("uv run --with pandas -p 3.12 --script scripts/x.py", "scripts/x.py"),
        ("cd skills/pdf && python scripts/x.py", "scripts/x.py"),
        ("cd ~/.claude/skills/pdf/scripts && python x.py", "scripts/x.py"),
        ("cd {baseDir} && ./scripts/x.py", "scripts/x.py"),
        ("python /skills/pdf/scripts/x.py", "scripts/x.py"),
        ("python /mnt/skills/public/pdf/scripts/x.py", "scripts/x.py"),
        ("python /path/to/pdf-tools/scripts/x.py", "scripts/x.py"),
        ("python ${CLAUDE_PLUGIN_ROOT}/scripts/x.py", "scripts/x.py"),
        ("sh scripts/deep/run.sh", "scripts/deep/run.sh"),
        ("bash deep/run.sh", "scripts/deep/run.sh"),
        ("npx -y tsx scripts/typed.ts", "scripts/typed.ts"),
        ("node --import tsx scripts/typed.ts", "scripts/typed.ts"),
        ("deno run -A scripts/app.js", "scripts/app.js"),
    ],
)
def test_another_way_to_run_the_same_script_is_the_same_call(line: str, script: str) -> None:
    assert invocation_in(f"{line} a", SCRIPTS, HOME)[:2] == (script, ("a",))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("python -c 'print(1)' scripts/x.py", "'python -c print(1)' does not just run"),
        ("python -i scripts/x.py", "'python -i' does not just run scripts/x.py"),
        ("python -O scripts/x.py", "'python -O' does not just run scripts/x.py"),
        ("python -m pdb scripts/x.py", "'python -m pdb' does not just run scripts/x.py"),
        ("python other.py scripts/x.py", "'python other.py' does not just run scripts/x.py"),
        ("bash scripts/x.py", "'bash' does not just run scripts/x.py"),
        ("node scripts/x.py", "'node' does not just run scripts/x.py"),
        ("python scripts/app.js", "'python' does not just run scripts/app.js"),
        ("bash -n scripts/deep/run.sh", "'bash -n' does not just run scripts/deep/run.sh"),
        ("source scripts/deep/run.sh", "'source' does not just run scripts/deep/run.sh"),
        ("sudo python scripts/x.py", "'sudo python' does not just run scripts/x.py"),
        ("time scripts/x.py", "'time' does not just run scripts/x.py"),
        ("timeout 5 python scripts/x.py", "'timeout 5 python' does not just run scripts/x.py"),
        ("! python scripts/x.py", "'! python' does not just run scripts/x.py"),
        ("uv pip install scripts/x.py", "'uv pip install' does not just run scripts/x.py"),
        ("uv run pytest scripts/x.py", "'uv run pytest' does not just run scripts/x.py"),
        ("npx eslint scripts/app.js", "'npx eslint' does not just run scripts/app.js"),
        ("npx scripts/app.js", "'npx' does not just run scripts/app.js"),
        ("/tmp/scripts/x.py", "'/tmp/scripts/x.py' is not the scripts/x.py of the skill"),
        ("python other/scripts/x.py", "'other/scripts/x.py' is not the scripts/x.py of the"),
        ("python /tmp/pdf/scripts/x.py", "'/tmp/pdf/scripts/x.py' is not the scripts/x.py"),
        ("python $HOME/scripts/x.py", "'$HOME/scripts/x.py' is not the scripts/x.py of the skill"),
        ("cd /tmp && python {baseDir}/scripts/x.py", "the line goes to '/tmp'"),
        ("cd /tmp && python scripts/x.py", "the line goes to '/tmp'"),
        ("python ../scripts/x.py", "'../scripts/x.py' is not the scripts/x.py of the skill"),
        ("cd .. && python scripts/x.py", "the line goes to '..'"),
        ("cd pdf || python scripts/x.py", "'||' is for a shell"),
        ("cd pdf | python scripts/x.py", "'|' is for a shell"),
        ("python scripts/x.py &", "'&' is for a shell"),
        ("set -x y; python scripts/x.py", "'set -x y' is another command"),
        ("export T=$ANY/skills/pdf/scripts/x.py", "'export' does not just run scripts/x.py"),
    ],
)
def test_a_line_that_does_something_else_with_a_script_is_refused(line: str, problem: str) -> None:
    with pytest.raises(CommandLineError, match=re.escape(problem)) as caught:
        invocation_in(line, SCRIPTS, HOME)

    assert caught.value.script in SCRIPTS


def test_the_root_of_a_plugin_is_not_the_folder_of_its_skill() -> None:
    skill = SkillFolder("/plugins/office/skills/pdf", skill="office:pdf")

    with pytest.raises(CommandLineError, match=r"is not the scripts/x\.py of the skill"):
        invocation_in("python ${CLAUDE_PLUGIN_ROOT}/scripts/x.py", SCRIPTS, skill)


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
