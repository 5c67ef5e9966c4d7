"""The main job, start to end: folders of skills become typed tools, called confined."""

import json
import sys
import tempfile
import warnings
from pathlib import Path

from skillpouch import SkillManager, SkillpouchError

EXAMPLES = Path(__file__).parent / "skills"

# One tool of each convention and language.
CALLS = [
    ("calculator.add", {"a": 2, "b": 3}),
    ("calculator.stats.mean", {"numbers": [1, 2, 3, 4]}),
    ("count-words.count_words", {"text": "files, not servers"}),
    ("release-notes.next_version", {"current": "1.2.3", "changes": ["feat: confine everything"]}),
    ("release-notes.thank_authors", {"authors": ["Ada", "Grace"]}),
    ("text-tools.slugify", {"text": "Hello, Skillpouch"}),
    ("greeter.greet", "World"),
    ("greeter.guest_list", {"data": ["Ada", "Grace"]}),
]

# A skill that tries to get at things; each attempt prints what came of it.
NOSY = '''"""Try to read the home folder, to write outside, and to call home."""
import os, pathlib, socket
for what, attempt in {
    "list the home folder": lambda: f"only what leads to its own files, {os.listdir('{home}')}",
    "write into its own skill": lambda: pathlib.Path(os.environ["SKILL_BASE_DIR"], "x").touch(),
    "open a connection": lambda: socket.create_connection(("127.0.0.1", 9), 1),
    "see the host's variables": lambda: os.environ["DEMO_SECRET"],
}.items():
    try:
        print(f"{what}: {attempt()}")
    except (OSError, KeyError) as error:
        print(f"{what}: denied ({type(error).__name__})")
'''


def main() -> None:
    # Words for people: without the file and line that Python puts before a warning.
    warnings.showwarning = lambda message, *_: print(f"warning: {message}", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="skillpouch-demo-") as folder:
        nosy = Path(folder) / "skills" / "nosy"
        workspace = Path(folder) / "work"
        (nosy / "scripts").mkdir(parents=True)
        workspace.mkdir()
        (nosy / "SKILL.md").write_text("---\nname: nosy\ndescription: Pokes around.\n---\n")
        (nosy / "scripts" / "poke.py").write_text(NOSY.replace("{home}", str(Path.home())))
        show(SkillManager(EXAMPLES, nosy.parent, workspace=workspace))


def show(manager: SkillManager) -> None:
    tools = manager.tools
    print(f"{len(manager.list_skills())} skills, {len(tools)} tools, read without running anything:\n")
    for tool in tools:
        arguments = ", ".join(tool.input_schema.get("properties", {}))
        print(f"  {tool.id:<32} {tool.kind:<7} {tool.convention or '-':<8} {arguments}")
        for reason in tool.missing:
            print(f"    not ready: {reason}")

    multiply = manager.get_tool("calculator.multiply")
    print("\nRead from the argparse calls of multiply.py, as a model sees it:\n")
    shown = {"name": multiply.name, "description": multiply.description}
    print(json.dumps(shown | {"input_schema": multiply.input_schema}, indent=2))

    print("\nCalled, confined:\n")
    for name, arguments in CALLS:
        print(f"  {name:<30} {answer_of(manager, name, arguments)}")

    print("\nA skill that pokes around gets nowhere:\n")
    try:
        result = manager.call("nosy.poke")
    except SkillpouchError as error:  # no protection on this machine: nothing ran
        sys.exit(f"  {error}\n  {error.hint}")
    for line in result.content.splitlines():
        print(f"  {line}")
    print("\nWhat held it:\n")
    for layer, by in result.protections.items():
        print(f"  {layer:<10} {by}")


def answer_of(manager: SkillManager, name: str, arguments: object) -> str:
    """Return what a call gave; for one that could not start here, why, and what mends it."""
    try:
        result = manager.call(name, arguments)
    except SkillpouchError as error:
        return f"not ready: {error}; {error.hint}" if error.hint else f"not ready: {error}"
    answer = result.content.replace("\n", " / ")
    return f"{result.outcome}  {result.duration_ms:6.1f} ms  {answer}"


if __name__ == "__main__":
    main()
