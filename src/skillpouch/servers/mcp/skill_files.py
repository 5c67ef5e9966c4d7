"""The files of skills as resources: addresses, sizes, hashes and bytes, of listed files only."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from mimetypes import guess_type
from urllib.parse import quote, unquote

from skillpouch.discovery.digest import Entry, manifest_of
from skillpouch.discovery.walk import is_skipped_folder
from skillpouch.errors import SkillUnreadableError
from skillpouch.skills import Skill
from skillpouch.untrusted_files import CannotReadError, read_inside

# What every host of skills over MCP accepts; a larger skill is not offered that way.
MOST_FILES = 512
MOST_BYTES = 16 * 1024 * 1024
_NAME = re.compile(r"(?=.{1,64}\Z)[a-z0-9]+(?:-[a-z0-9]+)*")
_LONGEST_DESCRIPTION = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillFile:
    uri: str
    path: str  # below the skill's folder
    sha256: str
    size: int
    type: str


def root_uri(skill: Skill) -> str:
    """Return where a skill is: `skill://NAME`, or `skill://PLUGIN/NAME`."""
    prefix = skill.name.split(":")[:-1]
    return "skill://" + "/".join(quote(part, safe="") for part in (*prefix, _own_name(skill)))


def roots_of(skills: Mapping[str, Skill]) -> dict[str, Skill]:
    """Return the skills that can be offered as they are, by address and in order.

    One without a name or a description of its own would not be what its file says.
    """
    found: dict[str, Skill] = {}
    for skill in skills.values():
        front = skill.metadata.frontmatter
        said = all(isinstance(front.get(key), str) for key in ("name", "description"))
        if said and not skill.degraded:
            found.setdefault(root_uri(skill), skill)
    return dict(sorted(found.items()))


def is_by_the_book(skill: Skill) -> bool:
    """Tell whether hosts that know the format take it: some refuse a whole list for one skill."""
    front = skill.metadata.frontmatter
    metadata = front.get("metadata", {})
    texts = isinstance(metadata, dict) and all(isinstance(each, str) for each in metadata.values())
    described = 0 < len(str(front.get("description", ""))) <= _LONGEST_DESCRIPTION
    return texts and described and _NAME.fullmatch(_own_name(skill)) is not None


def files_of(skill: Skill) -> dict[str, SkillFile] | None:
    """Return the files of a skill by address; None when they are too many, too large or gone.

    Hidden files, caches and links are left out: what is not listed is never served.
    """
    try:
        manifest = manifest_of(skill.home)
        found = [_file(skill, path, entry) for path, entry in manifest.items()]
    except (SkillUnreadableError, OSError):
        return None
    files = {file.uri: file for file in found if file is not None}
    if len(files) > MOST_FILES or sum(file.size for file in files.values()) > MOST_BYTES:
        return None
    return dict(sorted(files.items()))


def read_file(skill: Skill, file: SkillFile) -> bytes | None:
    """Return the bytes of a listed file; None when it is no longer there."""
    home = str(skill.home)
    try:
        return read_inside(f"{home}/{file.path}", home, MOST_BYTES).data
    except CannotReadError:
        return None


def owner_of(uri: str, roots: Mapping[str, Skill]) -> Skill | None:
    """Return the skill that an address lies in: of nested ones the innermost."""
    root = uri
    while "/" in root.removeprefix("skill://"):
        root = root.rpartition("/")[0]
        if root in roots:
            return roots[root]
    return None


def same_uri(uri: str) -> str:
    """Return an address in the one spelling that is listed."""
    return "skill://" + "/".join(
        quote(unquote(part), safe="") for part in uri.removeprefix("skill://").split("/")
    )


def _own_name(skill: Skill) -> str:
    return str(skill.metadata.frontmatter.get("name") or skill.metadata.name)


def _file(skill: Skill, path: str, entry: Entry) -> SkillFile | None:
    parts = path.split("/")
    hidden = any(part.startswith(".") or is_skipped_folder(part) for part in parts)
    if entry.kind != "file" or hidden:
        return None
    name = "SKILL.md" if path.lower() == "skill.md" else path
    place = "/".join(quote(os.fsencode(part), safe="") for part in name.split("/"))
    kind = "text/markdown" if path.lower().endswith(".md") else guess_type(path)[0]
    return SkillFile(
        uri=f"{root_uri(skill)}/{place}",
        path=path,
        sha256=entry.content,
        size=(skill.home / path).stat().st_size,
        type=kind or "application/octet-stream",
    )
