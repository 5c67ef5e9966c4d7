"""Seed 004 §6 and §11: the contract of a handler, in every language, and what it cannot reach."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from kitbag import SkillManager
from kitbag.errors import InvalidArgumentsError, ScriptExecutionError

WriteSkill = Callable[..., Path]

# §6, "JavaScript Convention" and "Examples", to the letter but for the logic left open there.
JAVASCRIPT = """export default async function handler(args) {
  const { text } = args;
  const words = text.trim().split(/\\s+/).filter(Boolean);
  return { count: words.length };
}
"""
JAVASCRIPT_COMMONJS = """module.exports = async function handler(args) {
  return { count: args.text.trim().split(/\\s+/).filter(Boolean).length };
};
"""
JAVASCRIPT_NOT_ASYNC = """export default ({ text }) => ({ count: text.split(" ").length });
"""
PYTHON = """def handler(args):
    text = args.get("text", "")
    words = text.split()
    return {"count": len(words)}
"""
PYTHON_ASYNC = """import asyncio

async def handler(args):
    await asyncio.sleep(0)
    return {"count": len(args["text"].split())}
"""
PYTHON_WITH_MAIN_BLOCK = """import json, sys

def handler(args):
    work_dir = args.get("__workDir")
    text = args.get("text", "")
    words = text.split()
    return {"count": len(words)}

if __name__ == "__main__":
    args = json.loads(sys.argv[1]) if len(sys.argv) > 1 else json.load(sys.stdin)
    print(json.dumps(handler(args)))
"""
# "Other Languages": JSON in on stdin, JSON out on stdout.
PERL = """use JSON::PP;
local $/;
my $args = decode_json(<STDIN>);
my @words = split ' ', $args->{text};
print encode_json({ count => scalar @words });
"""
RUBY = """require "json"
args = JSON.parse($stdin.read)
puts JSON.generate({ count: args["text"].split.length })
"""
BASH = """#!/bin/bash
text=$(sed -E 's/.*"text": ?"([^"]*)".*/\\1/')
set -- $text
echo "{\\"count\\": $#}"
"""

SAY_WHERE = {
    "say.js": "export default async ({ __workDir: workDir }) => [workDir, process.cwd()];\n",
    "say.py": 'import os\n\ndef handler(args):\n    return [args["__workDir"], os.getcwd()]\n',
    "say.sh": (
        '#!/bin/bash\nworkdir=$(sed -E \'s/.*"__workDir": ?"([^"]*)".*/\\1/\')\n'
        'printf \'["%s", "%s"]\' "$workdir" "$PWD"\n'
    ),
}
READ_KEY = {
    "key.js": "export default async () => process.env.OPENAI_API_KEY ?? null;\n",
    "key.py": 'import os\n\ndef handler(args):\n    return os.environ.get("OPENAI_API_KEY")\n',
    "key.sh": "#!/bin/bash\nif [ -v OPENAI_API_KEY ]; then echo '\"set\"'; else echo null; fi\n",
}
FAILING = {
    "throw.mjs": 'export default function () { throw new Error("no such city"); }\n',
    "reject.js": 'export default async () => { throw new Error("no such city"); };\n',
    "raise.py": 'def handler(args):\n    raise ValueError("no such city")\n',
    "araise.py": 'async def handler(args):\n    raise LookupError("no such city")\n',
    "main.py": (
        'import json, sys\n\ndef handler(args):\n    raise ValueError("no such city")\n\n'
        'if __name__ == "__main__":\n    print(json.dumps(handler(json.load(sys.stdin))))\n'
    ),
}


def manager_over(
    write_skill: WriteSkill, scripts: Mapping[str, str], parameters: Mapping[str, Any] | None = None
) -> SkillManager:
    """Declare each script in tools.json, named after its file."""
    declared = [
        {
            "name": Path(name).stem,
            "description": "Does its work",
            "script": f"scripts/{name}",
            "parameters": parameters or {},
        }
        for name in scripts
    ]
    files = {f"scripts/{name}": source for name, source in scripts.items()}
    home = write_skill("my-skill", files={"tools.json": json.dumps(declared), **files})
    workspace = home.parent.parent / "work"
    workspace.mkdir()
    manager = SkillManager(home.parent, workspace=workspace)
    manager.discover()
    return manager


@pytest.mark.parametrize(
    ("extension", "source"),
    [
        ("js", JAVASCRIPT),
        ("mjs", JAVASCRIPT),
        ("js", JAVASCRIPT_COMMONJS),
        ("cjs", JAVASCRIPT_COMMONJS),
        ("js", JAVASCRIPT_NOT_ASYNC),
        ("py", PYTHON),
        ("py", PYTHON_ASYNC),
        ("py", PYTHON_WITH_MAIN_BLOCK),
        ("pl", PERL),
        ("rb", RUBY),
        ("sh", BASH),
    ],
    ids=[
        "esm",
        "mjs",
        "commonjs",
        "cjs",
        "not-async",
        "python",
        "python-async",
        "python-with-main-block",
        "perl",
        "ruby",
        "bash",
    ],
)
def test_a_handler_receives_json_and_returns_json_in_every_language(
    write_skill: WriteSkill, extension: str, source: str
) -> None:
    text = {"type": "string", "description": "The text"}
    manager = manager_over(write_skill, {f"count_words.{extension}": source}, {"text": text})

    result = manager.call("count_words", {"text": "the quick brown fox"})

    assert (result.outcome, result.is_error, result.structured) == ("ok", False, {"count": 4})
    assert json.loads(result.content) == {"count": 4}


async def test_a_handler_is_invoked_like_any_other_tool(write_skill: WriteSkill) -> None:
    text = {"type": "string", "description": "The text"}
    tool = manager_over(write_skill, {"count_words.py": PYTHON}, {"text": text}).tools[0]

    assert json.loads(tool.invoke({"text": "to be or not to be"})) == {"count": 6}
    assert json.loads(await tool.ainvoke({"text": "to be or not to be"})) == {"count": 6}


@pytest.mark.parametrize("extension", ["js", "py"])
def test_the_input_is_one_object_with_every_parameter_and_the_work_dir(
    write_skill: WriteSkill, tmp_path: Path, extension: str
) -> None:
    source = {
        "js": "export default async function handler(args) { return args; }\n",
        "py": "def handler(args):\n    return args\n",
    }[extension]
    parameters = {
        "text": {"type": "string", "description": "A string"},
        "size": {"type": "number", "description": "A number"},
        "deep": {"type": "boolean", "description": "A boolean"},
        "with": {"type": "object", "description": "An object"},
        "also": {"type": "array", "description": "An array", "optional": True},
    }
    manager = manager_over(write_skill, {f"same.{extension}": source}, parameters)
    given = {"text": "naïve → ✓\n", "size": 2.5, "deep": False, "with": {"a": [None]}}

    result = manager.call("same", given)

    assert result.structured == {**given, "__workDir": str(tmp_path / "work")}


@pytest.mark.parametrize("name", SAY_WHERE)
def test_the_work_dir_is_the_folder_that_the_handler_runs_in(
    write_skill: WriteSkill, tmp_path: Path, name: str
) -> None:
    manager = manager_over(write_skill, {name: SAY_WHERE[name]})

    result = manager.call("say")

    assert result.structured == [str(tmp_path / "work"), str(tmp_path / "work")]


# "injected by the runtime": an agent cannot choose where a handler works.
def test_the_caller_cannot_set_the_work_dir(write_skill: WriteSkill) -> None:
    manager = manager_over(write_skill, {"say.py": SAY_WHERE["say.py"]})

    with pytest.raises(InvalidArgumentsError, match="__workDir"):
        manager.call("say", {"__workDir": "/etc"})


def test_arguments_that_do_not_fit_the_parameters_never_reach_the_handler(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    parameters = {
        "text": {"type": "string", "description": "The text"},
        "format": {"type": "string", "description": "How", "enum": ["text", "html"]},
    }
    source = 'def handler(args):\n    open("ran", "w").close()\n'
    manager = manager_over(write_skill, {"convert.py": source}, parameters)

    with pytest.raises(InvalidArgumentsError, match="format"):
        manager.call("convert", {"text": "x"})
    with pytest.raises(InvalidArgumentsError, match="text"):
        manager.call("convert", {"text": 5, "format": "text"})
    with pytest.raises(InvalidArgumentsError, match="html"):
        manager.call("convert", {"text": "x", "format": "pdf"})
    assert not (tmp_path / "work" / "ran").exists()


@pytest.mark.parametrize("extension", ["js", "py"])
def test_the_output_is_any_value_that_json_can_hold(
    write_skill: WriteSkill, extension: str
) -> None:
    values: dict[str, Any] = {
        "string": "done ✓",
        "object": {"a": {"b": []}},
        "array": [1, "two", None],
        "number": 2.5,
        "boolean": False,
    }
    wrap = {
        "js": "export default async () => JSON.parse({text!r});\n",
        "py": "import json\n\ndef handler(args):\n    return json.loads({text!r})\n",
    }[extension]
    scripts = {
        f"{name}.{extension}": wrap.format(text=json.dumps(value)) for name, value in values.items()
    }
    manager = manager_over(write_skill, scripts)

    results = {name: manager.call(name) for name in values}

    assert {name: result.structured for name, result in results.items()} == values
    assert results["string"].content == "done ✓"
    assert all(
        json.loads(result.content) == values[name]
        for name, result in results.items()
        if name != "string"
    )


def test_what_a_handler_prints_is_not_what_it_returns(write_skill: WriteSkill) -> None:
    scripts = {
        "js_prints.js": 'export default async () => { console.log("{}"); return { a: 1 }; };\n',
        "py_prints.py": 'def handler(args):\n    print("{}")\n    return {"a": 1}\n',
    }
    manager = manager_over(write_skill, scripts)

    for name in ("js_prints", "py_prints"):
        result = manager.call(name)

        assert (result.structured, result.stdout) == ({"a": 1}, "{}\n")


@pytest.mark.parametrize("name", FAILING)
def test_a_handler_that_fails_answers_with_an_error_and_its_message(
    write_skill: WriteSkill, name: str
) -> None:
    manager = manager_over(write_skill, {name: FAILING[name]})

    result = manager.call(Path(name).stem)

    assert (result.outcome, result.is_error) == ("failed", True)
    assert isinstance(result.structured, dict)
    assert set(result.structured) == {"error"}
    assert "no such city" in result.structured["error"]


@pytest.mark.parametrize("name", ["reject.js", "raise.py"])
def test_invoking_a_handler_that_fails_raises_its_message(
    write_skill: WriteSkill, name: str
) -> None:
    tool = manager_over(write_skill, {name: FAILING[name]}).tools[0]

    with pytest.raises(ScriptExecutionError, match="no such city"):
        tool.invoke({})


# "return a JSON-serializable value": what is not one is the handler's failure.
def test_a_handler_that_returns_no_json_value_fails(write_skill: WriteSkill) -> None:
    scripts = {
        "py_object.py": "def handler(args):\n    return object()\n",
        "js_cycle.js": "export default async () => { const a = {}; a.a = a; return a; };\n",
    }
    manager = manager_over(write_skill, scripts)

    for name in ("py_object", "js_cycle"):
        result = manager.call(name)

        assert (result.outcome, result.is_error) == ("failed", True)
        assert set(result.structured) == {"error"}


def test_in_other_languages_a_failure_is_an_exit_code_and_stderr(write_skill: WriteSkill) -> None:
    script = "#!/bin/bash\necho 'no such city' >&2\nexit 3\n"
    manager = manager_over(write_skill, {"weather.sh": script})

    result = manager.call("weather")

    assert (result.is_error, result.exit_code) == (True, 3)
    assert "no such city" in result.content


def test_in_other_languages_text_that_is_no_json_is_still_the_answer(
    write_skill: WriteSkill,
) -> None:
    manager = manager_over(write_skill, {"hello.sh": "#!/bin/bash\necho 'Hello, {World'\n"})

    result = manager.call("hello")

    assert (result.is_error, result.content, result.structured) == (False, "Hello, {World", None)


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("count.js", "let n = 0;\nexport default async () => { n += 1; return n; };\n"),
        (
            "count.py",
            "calls = []\n\ndef handler(args):\n    calls.append(1)\n    return len(calls)\n",
        ),
    ],
)
def test_each_invocation_is_independent(write_skill: WriteSkill, name: str, source: str) -> None:
    manager = manager_over(write_skill, {name: source})

    assert [manager.call("count").structured for _ in range(3)] == [1, 1, 1]


# "The runtime or deployment environment is responsible for providing these variables" cannot mean
# all of the host's: the environment is made from an allow-list (design.md §4), and a variable that
# a skill documents is given by a grant (§5), not because it happens to be set.
@pytest.mark.parametrize("name", READ_KEY)
def test_a_secret_of_the_host_does_not_reach_a_handler_that_was_not_granted_it(
    write_skill: WriteSkill, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-real-key")
    manager = manager_over(write_skill, {name: READ_KEY[name]})

    result = manager.call("key")

    assert (result.outcome, result.structured) == ("ok", None)


def test_no_secret_of_the_host_is_anywhere_in_the_environment_of_a_handler(
    write_skill: WriteSkill, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-real-key")
    monkeypatch.setenv("UNHEARD_OF", "not-a-real-key")
    manager = manager_over(
        write_skill,
        {
            "look.py": (
                "import os\n\ndef handler(args):\n"
                "    seen = dict(os.environ)\n"
                '    seen["initial"] = open("/proc/self/environ").read()\n'
                "    return seen\n"
            )
        },
    )

    result = manager.call("look")

    assert result.outcome == "ok"
    assert "not-a-real-key" not in json.dumps(result.structured)
    assert result.structured["SKILL_NAME"] == "my-skill"


def test_a_handler_works_on_files_in_the_work_dir(write_skill: WriteSkill, tmp_path: Path) -> None:
    source = """import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

export default async function handler({ __workDir: workDir }) {
  const text = await readFile(join(workDir, "in.txt"), "utf8");
  await writeFile(join(workDir, "out.txt"), text.toUpperCase());
  return { wrote: "out.txt" };
}
"""
    manager = manager_over(write_skill, {"shout.js": source})
    (tmp_path / "work" / "in.txt").write_text("hello")

    result = manager.call("shout")

    assert (tmp_path / "work" / "out.txt").read_text() == "HELLO"
    assert [(str(file.path), file.size) for file in result.files] == [("out.txt", 5)]


# §11 "Sandboxing" and "Least privilege"; tests/escapes tries harder.
@pytest.mark.parametrize("extension", ["js", "py", "sh"])
def test_a_handler_reaches_no_file_outside_its_work_dir_and_its_skill(
    write_skill: WriteSkill, tmp_path: Path, extension: str
) -> None:
    private, skill_file = tmp_path / "private.txt", tmp_path / "skills" / "my-skill" / "SKILL.md"
    private.write_text("for my eyes only")
    source = {
        "py": f"""from pathlib import Path

def tried(act):
    try:
        act()
    except OSError:
        return "denied"
    return "done"

def handler(args):
    return [
        tried(lambda: Path({str(private)!r}).read_text()),
        tried(lambda: Path({str(private)!r}).write_text("")),
        tried(lambda: Path({str(skill_file)!r}).write_text("")),
        tried(lambda: Path({str(skill_file)!r}).read_text()),
    ]
""",
        "js": f"""import {{ readFileSync, writeFileSync }} from "node:fs";

function tried(act) {{
  try {{ act(); return "done"; }} catch {{ return "denied"; }}
}}

export default async () => [
  tried(() => readFileSync({str(private)!r})),
  tried(() => writeFileSync({str(private)!r}, "")),
  tried(() => writeFileSync({str(skill_file)!r}, "")),
  tried(() => readFileSync({str(skill_file)!r})),
];
""",
        "sh": f"""#!/bin/bash
tried() {{ if "$@" 2>/dev/null; then printf '"done"'; else printf '"denied"'; fi; }}
read_it() {{ cat "$1" >/dev/null; }}
write_it() {{ : > "$1"; }}
echo "[$(tried read_it {private}),$(tried write_it {private}),\\
$(tried write_it {skill_file}),$(tried read_it {skill_file})]"
""",
    }[extension]
    manager = manager_over(write_skill, {f"reach.{extension}": source})

    result = manager.call("reach")

    assert result.structured == ["denied", "denied", "denied", "done"]
    assert private.read_text() == "for my eyes only"
    assert skill_file.read_text() != ""


def test_every_result_says_what_protected_the_host(write_skill: WriteSkill) -> None:
    result = manager_over(write_skill, {"count_words.py": PYTHON}).call("count_words")

    assert {"fs", "net", "tree"} <= set(result.protections)
    assert "none" not in {result.protections[layer] for layer in ("fs", "net", "tree")}
