"""The languages a script can be written in, told by its file name."""

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
