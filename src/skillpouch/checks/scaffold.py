"""Writes a new skill that passes every check, and never replaces an existing one."""

import re
import tempfile
from contextlib import suppress
from pathlib import Path

from skillpouch.errors import SkillpouchError
from skillpouch.runtime.removal import remove_tree

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\Z")
_LONGEST = 64

_PYTHON = '''#!/usr/bin/env python3
"""Greet somebody."""

import argparse


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("who", help="whom to greet")
    parser.add_argument("--shout", action="store_true", help="in capital letters")
    options = parser.parse_args()
    greeting = f"Hello, {options.who}!"
    print(greeting.upper() if options.shout else greeting)


if __name__ == "__main__":
    main()
'''
_JAVASCRIPT = """/**
 * Greet somebody.
 *
 * @param {object} args
 * @param {string} args.who - whom to greet
 * @param {boolean} [args.shout] - in capital letters
 */
export default async function handler(args) {
  const greeting = `Hello, ${args.who}!`;
  return args.shout ? greeting.toUpperCase() : greeting;
}
"""
_SHELL = """#!/usr/bin/env bash
# Greet somebody.
set -euo pipefail

WHO="$1"

echo "Hello, $WHO!"
"""
_SCRIPTS = {
    "python": ("greet.py", _PYTHON),
    "javascript": ("greet.mjs", _JAVASCRIPT),
    "shell": ("greet.sh", _SHELL),
}
LANGUAGES = tuple(_SCRIPTS)

_SKILL_MD = """---
name: {name}
description: {description}
---

# {title}

Use the tool `greet` to greet somebody by name. Its script is `scripts/{script}`.
"""


class ScaffoldError(SkillpouchError):
    """A new skill cannot be written under that name or in that place."""

    code = "scaffold"


def write_skill(root: Path, name: str, *, language: str, description: str = "") -> Path:
    """Write a skill into `root`/`name` and return its folder; refuse to touch what exists."""
    if not _NAME.match(name) or len(name) > _LONGEST:
        raise ScaffoldError(
            f"{name!r} is not a name for a skill",
            hint="use 1-64 lower-case letters, digits and single hyphens, such as 'word-count'",
        )
    home = root / name
    if home.exists():
        raise ScaffoldError(f"{home} exists", hint="choose another name, or remove it first")
    script, text = _SCRIPTS[language]
    described = description.strip() or "Greets people by name. Use when somebody wants a greeting."
    root.mkdir(parents=True, exist_ok=True)
    # Written to a temporary folder, then renamed: a crash leaves no half-written skill to be found.
    draft = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=root))
    try:
        (draft / "scripts").mkdir()
        (draft / "scripts" / script).write_text(text, encoding="utf-8")
        title = name.replace("-", " ").capitalize()
        page = _SKILL_MD.format(
            name=name, description=_quoted(described), title=title, script=script
        )
        (draft / "SKILL.md").write_text(page, encoding="utf-8")
        draft.chmod(0o755)
        draft.rename(home)
    except OSError as error:
        raise ScaffoldError(f"cannot write {home}: {error.strerror or error}") from None
    finally:
        with suppress(OSError):
            remove_tree(draft)
    return home


def _quoted(text: str) -> str:
    """Return text as a YAML scalar that every parser reads the same."""
    flat = " ".join(text.split())
    if re.fullmatch(r"[A-Za-z][\w ,.()/'-]*", flat):
        return flat
    escaped = flat.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
