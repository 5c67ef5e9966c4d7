"""The languages a script can be written in, told by its file name, and what runs them."""

import re
from codecs import BOM_UTF8, lookup
from pathlib import PurePath
from typing import Literal

Language = Literal["python", "shell", "javascript", "typescript", "ruby", "perl"]

EXTENSIONS: dict[str, Language] = {
    ".py": "python",
    ".sh": "shell",
    ".bash": "shell",
    ".zsh": "shell",
    ".js": "javascript",
    ".mjs": "javascript",
    ".cjs": "javascript",
    ".ts": "typescript",
    ".rb": "ruby",
    ".pl": "perl",
}

# What a TypeScript file needs: Node strips types by itself from 22.18 and 23.6 on.
TYPESCRIPT_NODE = "node 22.18 or newer, which runs TypeScript,"

# program → the Debian package that has it: what a person is told to install
DEBIAN_PACKAGES = {
    "bash": "bash",
    "zsh": "zsh",
    "node": "nodejs",
    "npm": "npm",
    "ruby": "ruby",
    "perl": "perl",
    "rg": "ripgrep",
}


def language_of(path: str) -> Language | None:
    """Return the language of a script by its name, None for any other file."""
    return EXTENSIONS.get(PurePath(path).suffix.lower())


# PEP 263: in the first line, or in the second when the first is a comment or empty.
_CODING = re.compile(
    rb"\A(?:[ \t\f]*(?:#[^\r\n]*)?\r?\n)?[ \t\f]*#[^\r\n]*?coding[:=][ \t]*([-\w.]+)"
)
_QUADRATIC = ("punycode", "idna")  # nobody writes programs in them, and megabytes take hours


def source_text(data: bytes, language: Language | None) -> str:
    """Return the text of a script: UTF-8, or what a Python file declares itself to be in.

    What cannot be read so is replaced, never an error: whether it runs, its interpreter says.
    """
    encoding = "utf-8"
    declared = _CODING.match(data) if language == "python" else None
    if declared is not None and not data.startswith(BOM_UTF8):
        encoding = declared[1].decode()
    try:
        if lookup(encoding).name not in _QUADRATIC:
            return data.decode(encoding, "replace").removeprefix("\ufeff")
        return data.decode("utf-8-sig", "replace")
    except (LookupError, ValueError):  # no such encoding, or none of text
        return data.decode("utf-8-sig", "replace")
