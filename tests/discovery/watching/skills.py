"""Skills whose tools say which version of themselves they are, and all the ways to save one."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path


def script(version: int) -> str:
    """Return a script that says its version twice: as compiled, and as its file has it now.

    Its first half is no Python.
    """
    padding = "    0,\n" * 50
    return f'''"""Say version {version}."""
import re

PADDING = (
{padding})


def handler(args):
    return [{version}, int(re.search("[0-9]+", open(__file__).read())[0])]
'''


def skill_md(name: str, version: int) -> str:
    return f"---\nname: {name}\ndescription: Says {version}.\n---\n\nSay version {version}.\n"


def tools_json(version: int) -> str:
    entry = {
        "name": "tell",
        "description": f"Tells version {version}.",
        "script": "scripts/say.py",
        "parameters": {"type": "object", "properties": {}},
    }
    return json.dumps([entry], indent=1)


def write(home: Path, version: int = 1) -> Path:
    (home / "scripts").mkdir(parents=True)
    (home / "scripts/say.py").write_text(script(version))
    (home / "SKILL.md").write_text(skill_md(home.name, version))
    return home


Save = Callable[[Path, str], None]  # a file, and what it is to hold


def in_place(file: Path, text: str) -> None:
    file.write_text(text)


def in_two_steps(file: Path, text: str) -> None:
    """Write the first half, make sure that it is seen on disk, then the other."""
    with file.open("w") as half:
        half.write(text[: len(text) // 2])
        half.flush()
        os.fsync(half.fileno())
        half.write(text[len(text) // 2 :])


def over(file: Path, text: str) -> None:
    """Write another file and rename it over this one."""
    other = file.with_name(f".{file.name}.tmp")
    other.write_text(text)
    other.replace(file)


def with_backup(file: Path, text: str) -> None:
    """Rename this one to a backup, write a new one, delete the backup."""
    backup = file.with_name(f"{file.name}~")
    file.rename(backup)
    file.write_text(text)
    backup.unlink()


def anew(file: Path, text: str) -> None:
    file.unlink()
    file.write_text(text)


def emptied_first(file: Path, text: str) -> None:
    os.truncate(file, 0)
    file.write_text(text)


def by_a_link(file: Path, text: str) -> None:
    """Keep the text elsewhere in the skill and let the file be a link to it."""
    kept = file.with_name(f"kept-{os.urandom(4).hex()}{file.suffix}.txt")
    kept.write_text(text)
    link = file.with_name(".link")
    link.symlink_to(kept.name)
    before = file.readlink() if file.is_symlink() else None
    link.replace(file)
    if before is not None:
        file.with_name(str(before)).unlink()


def with_its_folder(file: Path, text: str) -> None:
    """Replace the whole skill by a copy of it with another text."""
    home = file.parents[1]
    new = home.with_name(f".{home.name}.new")
    old = home.with_name(f".{home.name}.old")
    shutil.copytree(home, new, symlinks=True)
    over(new / file.relative_to(home), text)
    home.rename(old)
    new.rename(home)
    shutil.rmtree(old)


def folder_deleted_first(file: Path, text: str) -> None:
    """Delete everything and write it again, as switching branches does."""
    home = file.parents[1]
    files = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    shutil.rmtree(home)
    for path, data in {**files, file: text.encode()}.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


SAVES: list[Save] = [
    in_place,
    in_two_steps,
    over,
    with_backup,
    anew,
    emptied_first,
    by_a_link,
    with_its_folder,
    folder_deleted_first,
]
