"""The languages a script can be written in, told by its file name, and what runs them."""

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
