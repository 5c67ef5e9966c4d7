"""The shape of the code base: sizes, directions of imports, what an import loads."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

import skillpouch
from skillpouch import SkillManager
from skillpouch.errors import InvalidArgumentsError
from skillpouch.journal import recording
from skillpouch.runtime.loop_thread import run_blocking
from skillpouch.testing.cassette import Cassette

REPOSITORY = Path(__file__).parent.parent
SOURCE = REPOSITORY / "src" / "skillpouch"
FILES = sorted(path for path in SOURCE.rglob("*.py") if "_pb2" not in path.name)  # not generated

# The map of docs/architecture.md: each imports only from those before it, also where an import is
# inside a function or only for types.
PAGE = [
    name
    for line in (
        "problems errors needs limits skills environment runtime text untrusted_files json_values",
        "results secrets signatures tools calls arguments templates workspace store net",
        "declarations execution functions registry scripts discovery trust policy provision",
        "backends journal controls checks builtins jobs executor manager",
        "sessions shell integrations servers mcp_client testing cli",
    )
    for name in line.split()
]

MOST_MODULES, MOST_PACKAGES, MOST_FILES, MOST_LINES = 20, 28, 470, 500
# Why a file is longer than others; without a line here it is split, or something in it is deleted.
LONG_FILES: dict[str, str] = {}


def name_of(path: Path) -> str:
    """Return the dotted name of a module below skillpouch."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


MODULES = {name_of(path): path for path in FILES}


@cache
def imports_of(name: str) -> set[str]:
    """Return the modules of skillpouch that one imports anywhere, for whatever reason."""
    found = set()
    for node in ast.walk(ast.parse(MODULES[name].read_bytes())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "skillpouch":
            base = str(node.module).partition(".")[2]
            for each in node.names:
                inner = f"{base}.{each.name}".lstrip(".")
                found.add(inner if inner in MODULES else base)
    return found - {""}


@pytest.mark.parametrize("path", FILES, ids=[str(file.relative_to(SOURCE)) for file in FILES])
def test_a_file_says_what_it_is_for(path: Path) -> None:
    docstring = ast.get_docstring(ast.parse(path.read_bytes()))

    assert docstring
    assert docstring.splitlines()[0].endswith((".", "?"))


def test_a_long_file_has_a_reason() -> None:
    counts = {name: len(path.read_text().splitlines()) for name, path in MODULES.items()}

    assert {name for name, count in counts.items() if count > MOST_LINES} == set(LONG_FILES)


def test_the_listing_is_short() -> None:
    modules = list(SOURCE.glob("*.py"))
    packages = list(SOURCE.glob("*/__init__.py"))

    assert len(modules) <= MOST_MODULES
    assert len(packages) <= MOST_PACKAGES


def test_files_are_capabilities_and_not_crumbs() -> None:
    lines = sum(len(path.read_text().splitlines()) for path in FILES)

    assert len(FILES) <= MOST_FILES
    assert len(FILES) * 10_000 / lines <= 70


def test_few_files_serve_only_one_other() -> None:
    importers = {
        name: {other for other in MODULES if name in imports_of(other)} for name in MODULES
    }
    single = [name for name, path in MODULES.items() if len(importers[name]) == 1]
    single = [name for name in single if MODULES[name].name != "__init__.py"]

    assert len(single) / len(FILES) <= 0.20


@pytest.mark.parametrize("name", sorted(MODULES.keys() - {"", "__main__"}))
def test_imports_go_up_the_page_never_down(name: str) -> None:
    part = name.split(".", maxsplit=1)[0]
    others = {other.split(".")[0] for other in imports_of(name)} - {part}

    assert {other for other in others if PAGE.index(other) > PAGE.index(part)} == set()


def test_every_part_has_its_place() -> None:
    parts = {name.split(".")[0] for name in MODULES} - {"", "__main__"}

    assert parts == set(PAGE)


def test_no_two_public_classes_have_one_name() -> None:
    homes: dict[str, list[str]] = {}
    for name, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(name)

    assert {name: found for name, found in homes.items() if len(found) > 1} == {}


def test_the_public_names_are_few_and_real() -> None:
    assert len(skillpouch.__all__) <= 22
    for name in skillpouch.__all__:
        assert getattr(skillpouch, name).__name__ == name


def test_an_unknown_public_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Toolbox'"):
        _ = skillpouch.Toolbox


def test_importing_skillpouch_loads_nothing_heavy() -> None:
    program = "import skillpouch, sys; print(*sys.modules)"

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    loaded = set(ran.stdout.decode().split())
    heavy = {"yaml", "click", "rich", "jsonschema_rs", "asyncio", "sqlite3", "dataclasses"}
    frameworks = {"httpx2", "pydantic", "grpc", "mcp", "langchain_core", "bashkit"}
    assert loaded.isdisjoint(heavy | frameworks)


# Which packages an integration is for; pydantic comes with several of them.
FRAMEWORKS = {
    "langchain": {"langchain", "langchain_core", "langgraph"},
    "openai": {"openai"},
    "anthropic": {"anthropic"},
    "pydantic_ai": {"pydantic_ai"},
    "agents": {"agents"},
}


@pytest.mark.parametrize(
    "path", sorted((SOURCE / "integrations").rglob("*.py")), ids=lambda path: path.name
)
def test_no_integration_imports_the_framework_of_another(path: Path) -> None:
    name = path.relative_to(SOURCE / "integrations").parts[0].removesuffix(".py")
    foreign = set().union(*FRAMEWORKS.values()) - FRAMEWORKS.get(name, set())

    assert imported_anywhere(path).isdisjoint(foreign)


def test_nothing_but_integrations_imports_a_framework() -> None:
    frameworks = set().union(*FRAMEWORKS.values())
    others = [path for path in FILES if not path.is_relative_to(SOURCE / "integrations")]

    assert [path for path in others if not imported_anywhere(path).isdisjoint(frameworks)] == []


def imported_anywhere(path: Path) -> set[str]:
    """Return the packages that a file imports, also inside its functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").split(".")[0])
    return found


def test_finding_skills_loads_nothing_that_reads_scripts() -> None:
    program = (
        "import sys; from skillpouch import SkillManager; SkillManager('examples').list_skills();"
        "print(*sys.modules)"
    )

    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, cwd=REPOSITORY
    )

    assert set(ran.stdout.decode().split()).isdisjoint(
        {
            "skillpouch.signatures.python.reading",
            "docstring_parser",
            "jsonschema_rs",
            "rich",
            "click",
        }
    )


def test_finding_skills_with_ordinary_frontmatter_does_without_the_parser(tmp_path: Path) -> None:
    front = "name: demo\ndescription: Does it.\nmetadata:\n  tags: [one, two]\n"
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo/SKILL.md").write_text(f"---\n{front}---\nDo it.\n")
    program = (
        "import sys; from skillpouch import SkillManager;"
        "print(len(SkillManager(sys.argv[1]).list_skills()), 'yaml' in sys.modules)"
    )

    ran = subprocess.run(
        [sys.executable, "-c", program, tmp_path], capture_output=True, check=True, text=True
    )

    assert ran.stdout == "1 False\n"


def test_every_promise_has_a_test_and_every_test_its_promise() -> None:
    promised = set(re.findall(r"^\| ([a-z]+-\d+) \|", _text("docs/security.md"), re.MULTILINE))
    tests = "".join(path.read_text() for path in (REPOSITORY / "tests").rglob("*.py"))
    kept = set(re.findall(r'promise\("([a-z]+-\d+)"\)', tests))
    attacks = _text("tests/escapes/attacks.py")
    kept |= set(re.findall(r"\b(?:fs|net|proc|env|limit|loop|local|own)-\d+\b", attacks))

    assert kept == promised


def test_every_problem_code_is_on_its_page() -> None:
    page = set(
        re.findall(r"^\| `([a-z0-9-]+)` \|", _text("docs/reference/problems.md"), re.MULTILINE)
    )

    assert problem_codes() == page


_CODE = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)+\Z")
_REASONS = "absent empty invalid language no-text not-a-file nul-bytes outside too-large unreadable"
_COMPOSED = {
    *(f"skill-{reason}" for reason in _REASONS.split() if reason not in ("invalid", "language")),
    *(f"script-{reason}" for reason in _REASONS.split() if reason not in ("empty", "no-text")),
    *(f"strict-{field}" for field in ("name", "description", "compatibility")),
    *(f"declaration-{reason}" for reason in ("not-a-file", "outside", "too-large", "unreadable")),
}
_REPORTING = {
    "report",
    "_report",
    "_report_at",
    "add",
    "lost",
    "DeclarationError",
    "Problem",
    "_problem",
}


def problem_codes() -> set[str]:
    """Return the codes that the source can report, told by the calls that report."""
    written = set()
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Constant) and str(node.value).startswith("strict-"):
                written.add(node.value)
            elif isinstance(node, ast.Call) and _called(node) in _REPORTING:
                words = [*node.args, *(word.value for word in node.keywords if word.arg == "code")]
                written |= {word.value for word in words if isinstance(word, ast.Constant)}
    return {code for code in written if isinstance(code, str) and _CODE.match(code)} | _COMPOSED


def _called(node: ast.Call) -> str:
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def test_the_version_is_the_one_in_the_package() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "skillpouch", "--version"], capture_output=True, check=True
    )

    assert ran.stdout.decode() == f"skillpouch, version {skillpouch.__version__}\n"


def test_what_is_tried_of_each_extra_exists() -> None:
    lines = [line.split(" | ") for line in (REPOSITORY / ".ci/extras").read_text().splitlines()]
    tried = [line for line in lines if len(line) > 2]

    modules = {each for line in tried for each in line[1].split(",") if "skillpouch." in each}
    files = {each for line in tried for part in line[1:3] for each in part.split() if "/" in each}

    assert {each for each in modules if each.removeprefix("skillpouch.") not in MODULES} == set()
    assert {each for each in files if not (REPOSITORY / each).exists()} == set()
    assert len(modules) > 5


def test_nothing_names_a_machine() -> None:
    for path in [*FILES, *(REPOSITORY / "docs").rglob("*.md"), REPOSITORY / "README.md"]:
        assert not re.search(r"/(?:root|work|home/\w+)/", path.read_text()), path


_REPEATED_GROUP = re.compile(r"\(\?.*\)(?:[*+?]|\{[0-9,]*\})\+", re.DOTALL)


def test_no_pattern_repeats_a_group_possessively() -> None:
    # `(?:ab?c)*+` matches "a" in Python 3.11.0 to 3.11.4; `(?>(?:ab?c)*)` is right everywhere.
    found = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in FILES
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if _REPEATED_GROUP.search(node.value)
    ]

    assert found == []


def _text(name: str) -> str:
    return (REPOSITORY / name).read_text()


@pytest.mark.slow
def test_calling_a_script_loads_no_more_than_it_uses(tmp_path: Path) -> None:
    scripts = tmp_path / "skills/demo/scripts"
    scripts.mkdir(parents=True)
    (scripts.parent / "SKILL.md").write_text("---\nname: demo\ndescription: Demo.\n---\n")
    (scripts / "hello.py").write_text('"""Say hello."""\nprint("hello")\n')
    words = ["call", "demo.hello", "--root", "skills", "--workspace", "."]
    command = [sys.executable, "-X", "importtime", "-m", "skillpouch", *words]

    subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)  # fills the index
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)

    loaded = set(re.findall(r"\| +(skillpouch[\w.]*)$", ran.stderr.decode(), re.MULTILINE))
    assert ran.stdout == b"hello\n"
    assert len(loaded) <= 170
    assert not {name for name in loaded if name.startswith("skillpouch.net.http")}


def test_the_help_of_the_command_line_names_every_command() -> None:
    from skillpouch.cli import _COMMANDS, cli

    for name, said in _COMMANDS.items():
        command = cli.commands.get(name) or cli.get_command(None, name)  # type: ignore[arg-type]
        assert command is not None
        assert command.get_short_help_str(200).split()[0] == said.split()[0]


def manager_of_one_tool(folder: Path, *, all_tools: bool = False) -> SkillManager:
    """Return a manager of the tool `demo.hello`, with all of Skillpouch's own or without them."""
    scripts = folder / "skills/demo/scripts"
    scripts.mkdir(parents=True)
    (folder / "work").mkdir()
    (scripts.parent / "SKILL.md").write_text("---\nname: demo\ndescription: Demo.\n---\n")
    (scripts / "hello.py").write_text('def handler(args):\n    return "hello"\n')
    return SkillManager(
        folder / "skills",
        workspace=folder / "work",
        builtins=all_tools,
        define_tools=all_tools,
        disclosure=all_tools,
    )


@pytest.mark.parametrize("everything", [True, False])
def test_a_name_is_looked_up_in_two_files(tmp_path: Path, *, everything: bool) -> None:
    manager = manager_of_one_tool(tmp_path, all_tools=everything)
    touched: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            touched.extend(file_of(frame))

    async def call(name: str) -> None:
        for hook in (None, note):  # the first time, tools are read
            sys.setprofile(hook)
            with pytest.raises(InvalidArgumentsError):
                await manager.acall(name, stdin="\ud800")  # no text: nothing runs
            sys.setprofile(None)

    around = {"manager.py", "executor.py", "results.py"}  # the last takes the time
    with manager.watch() if everything else nullcontext():
        for name in ("demo.hello", "demo__hello", "hello"):
            touched.clear()
            run_blocking(call(name))
            until_found = set(touched[: touched.index("arguments.py")])
            assert until_found - around == {"registry/registry.py", "discovery/catalogue.py"}


def test_a_warm_call_passes_through_few_files(tmp_path: Path) -> None:
    manager = manager_of_one_tool(tmp_path)
    touched: set[str] = set()
    called_functions: set[CodeType] = set()
    stacks: list[set[str]] = []  # when a packet with descriptors is sent: it starts the work

    def note(frame: FrameType, event: str, called: Any) -> None:
        if event == "call":
            touched.update(file_of(frame))
            called_functions.add(frame.f_code)
        elif event == "c_call" and called.__name__ == "sendmsg":
            stacks.append(set(files_of(frame)))

    async def call() -> None:
        for _ in range(20):  # until a process waits for it
            await manager.acall("demo.hello")
        sys.setprofile(note)
        try:
            await manager.acall("demo.hello")
        finally:
            sys.setprofile(None)

    run_blocking(call())  # on the thread on which calls run, so that all of it is seen

    assert touched >= {"executor.py", "execution/zygote/wire.py"}
    assert len(touched) <= 45
    assert stacks[0] >= {"manager.py", "executor.py", "runtime/loop_thread.py"}
    assert len(stacks[0]) <= 6
    # What tests record and replay by is a list that is empty: nothing of it is called.
    hooks: list[Any] = [Cassette.answer, Cassette.keep, recording._keep]
    assert called_functions.isdisjoint({hook.__code__ for hook in hooks})


def file_of(frame: FrameType) -> list[str]:
    """Return the file of a function, if it is one of Skillpouch."""
    file = Path(frame.f_code.co_filename)
    return [str(file.relative_to(SOURCE))] if file.is_relative_to(SOURCE) else []


def files_of(frame: FrameType | None) -> Iterator[str]:
    """Yield the files of Skillpouch on a stack."""
    while frame is not None:
        yield from file_of(frame)
        frame = frame.f_back
