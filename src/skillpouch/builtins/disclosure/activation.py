"""The text that an agent gets when it uses a skill: its instructions, with arguments filled in."""

import re
import shlex
from collections.abc import Mapping
from html import escape
from itertools import islice
from pathlib import Path

from skillpouch.discovery.walk import PLUGIN_FOLDER, is_skipped_folder
from skillpouch.skills import Skill
from skillpouch.text import clean

_PLACEHOLDER = re.compile(
    r"\$\$ARGUMENTS"
    r"|\$ARGUMENTS\b"
    r"|\$(?P<number>[1-9][0-9]?)\b"
    r"|(?P<home>\{baseDir\}|\$\{CLAUDE_SKILL_DIR\})"
    r"|(?P<plugin>\$\{CLAUDE_PLUGIN_ROOT\})"
)
_MOST_RESOURCES = 100
_MOST_VISITED = 2_000


def activate(skill: Skill, arguments: str = "", *, home: str = "") -> str:
    """Return the skill's instructions, its folder and its files; nothing in it is run.

    `home` replaces the path of the folder in the text, for an agent that cannot reach that path.
    Placeholders inside arguments are not expanded.
    """
    text, placed = _substitute(skill, arguments, home)
    parts = [f"Base directory for this skill: {home or skill.home}", text.strip()]
    if arguments and not placed:
        parts.append(f"ARGUMENTS: {arguments}")
    resources = _resources(skill.home)
    if resources:
        lines = "\n".join(f"  <file>{_escape(name)}</file>" for name in resources)
        parts.append(f"<skill_resources>\n{lines}\n</skill_resources>")
    return "\n\n".join(part for part in parts if part)


def _substitute(skill: Skill, arguments: str, home: str) -> tuple[str, bool]:
    words = _words(arguments)
    placed = False

    def value(match: re.Match[str]) -> str:
        nonlocal placed
        if match["home"]:
            return home or str(skill.home)
        if match["plugin"]:
            return str((not home and plugin_root(skill.home)) or match[0])
        if match[0] == "$$ARGUMENTS":
            return "$ARGUMENTS"
        if not match["number"]:
            placed = True
            return arguments
        number = int(match["number"])
        if number > len(words):
            return match[0]  # no argument with this number: `awk '{print $1}'` stays unchanged
        placed = True
        return words[number - 1]

    return _PLACEHOLDER.sub(value, clean(skill.body)), placed


def _words(arguments: str) -> list[str]:
    try:
        return shlex.split(arguments)
    except ValueError:
        return arguments.split()


def plugin_root(home: Path) -> Path | None:
    """Return the folder of the plugin that a skill belongs to, None if it belongs to none."""
    return next((folder for folder in home.parents if (folder / PLUGIN_FOLDER).is_dir()), None)


def _resources(home: Path) -> list[str]:
    """List the skill's other files: names only, capped, without hidden ones."""
    found: list[str] = []
    pending = [home]
    visited = 0
    while pending and visited < _MOST_VISITED:
        folder = pending.pop(0)
        try:
            entries = sorted(islice(folder.iterdir(), _MOST_VISITED))
        except OSError:
            continue
        if folder != home and any(entry.name.lower() == "skill.md" for entry in entries):
            continue  # the folder is another skill
        for entry in entries:
            visited += 1
            if entry.name.startswith(".") or entry.name.lower() == "skill.md":
                continue
            if entry.is_dir() and not entry.is_symlink():
                pending += [] if is_skipped_folder(entry.name) else [entry]
            else:
                found.append(entry.relative_to(home).as_posix())
    more = len(found) - _MOST_RESOURCES
    return found[:_MOST_RESOURCES] + ([f"… and {more} more"] if more > 0 else [])


def _escape(name: str) -> str:
    return escape(clean(name), quote=False)


_SPACE = re.compile(r"\s+")


def marked(tag: str, text: str, **attributes: str) -> str:
    """Put text between two tags; closing tags inside the text are escaped."""
    facts = "".join(f' {name}="{attribute(value)}"' for name, value in attributes.items())
    inside = re.sub(rf"<(?=\s*/\s*{tag}\b)", "&lt;", clean(text), flags=re.IGNORECASE)
    return f"<{tag}{facts}>\n{inside}\n</{tag}>"


def element(tag: str, text: str, **attributes: str) -> str:
    """Write a short text as one element in one line."""
    facts = "".join(f' {name}="{attribute(value)}"' for name, value in attributes.items())
    return f"<{tag}{facts}>{escaped(text)}</{tag}>"


def attribute(text: str) -> str:
    """Write text as the value of an attribute."""
    return escape(one_line(text), quote=True)


def escaped(text: str) -> str:
    """Write text as the content of an element."""
    return escape(one_line(text), quote=False)


def one_line(text: str) -> str:
    """Return text as a single line without invisible characters."""
    return _SPACE.sub(" ", clean(text)).strip()


_KEY = "disable-model-invocation"


def is_offered(skill: Skill) -> bool:
    """Tell whether an agent may choose the skill itself; people can always use it."""
    value = skill.metadata.frontmatter.get(_KEY)
    return not (value is True or str(value).strip().lower() in ("true", "yes", "on"))


def offered_skill(skills: Mapping[str, Skill], name: str) -> Skill:
    """Return a skill by name; raise ToolFaultError when it is gone or not for agents."""
    skill = skills.get(name)
    if skill is None or not is_offered(skill):
        # Imported here, so that finding skills does not load it.
        from skillpouch.errors import ToolFaultError

        hint = "`search_tools` finds what there is now"
        raise ToolFaultError("not_found", f"there is no skill {name!r} any more", hint=hint)
    return skill
