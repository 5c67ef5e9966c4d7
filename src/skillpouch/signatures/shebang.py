"""Finds the language of a script from its name and its first line."""

import re
from codecs import BOM_UTF8, lookup
from typing import Literal

_LONGEST = 256  # bytes that the Linux kernel reads
_SYSTEM_FOLDERS = frozenset(
    {"/bin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin", "/opt/local/bin"}
)
_INTERPRETER = re.compile(
    r"python(?:3(?:\.\d{1,2})?)?|bash|sh|zsh|dash|ksh|node|nodejs|deno|bun|bunx|tsx|ts-node|ruby|perl"
    r"|uv|uvx|npx|pnpx|pipx|osascript|bats"
)
_PLAIN_WORD = re.compile(r"[\w./:=+,@%-]+", re.ASCII)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=", re.ASCII)


def read_shebang(text: str | bytes) -> tuple[str, ...]:
    """Return the words of `#!/usr/bin/env -S python3 -u` after `env`; none if they are not usable.

    An interpreter outside the usual folders exists only on the author's machine, and is ignored.
    Runners that download what they run (`npx`, `uvx`) are returned unchanged.
    """
    words = _words(text)
    if not words:
        return ()
    folder, _, name = words[0].rpartition("/")
    if folder and folder not in _SYSTEM_FOLDERS:
        return ()
    command = _after_env(words[1:]) if name == "env" else [name, *words[1:]]
    return tuple(command) if command and _INTERPRETER.fullmatch(command[0]) else ()


def _words(text: str | bytes) -> list[str]:
    """Return the words of a first line that every system reads in the same way."""
    head = text[: _LONGEST + 1]
    data = head.encode("utf-8", "replace") if isinstance(head, str) else head
    data = data.removeprefix(b"\xef\xbb\xbf")
    line, newline, _ = data.partition(b"\n")
    if not line.startswith(b"#!") or len(line) > _LONGEST or (not newline and len(head) > _LONGEST):
        return []
    words = line[2:].decode("utf-8", "replace").split()
    return words if all(_PLAIN_WORD.fullmatch(word) for word in words) else []


def _after_env(words: list[str]) -> list[str]:
    """Return the command of `env`, without its own options and variables."""
    position = 0
    while position < len(words):
        word = words[position]
        if word.startswith("-S") and len(word) > len("-S"):  # -Spython3
            return [word[2:], *words[position + 1 :]]
        if not word.startswith("-") and not _ASSIGNMENT.match(word):
            break
        position += 1
    return words[position:]


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

# TypeScript files need Node 22.18, 23.6 or later, which strips types itself.
TYPESCRIPT_NODE = "node 22.18 or newer, which runs TypeScript,"
_UNKNOWN_TYPESCRIPT = re.compile(
    r"ERR_UNKNOWN_FILE_EXTENSION\S* Unknown file extension \"\.[mc]?ts\""
)
# As tsx says it, which without a package.json makes CommonJS of a .ts file.
_NO_TOP_LEVEL_AWAIT = 'Top-level await is currently not supported with the "cjs" output format'
# Without a package.json, an older Node reads a .ts file as JavaScript.
_READ_AS_JAVASCRIPT = re.compile(
    r"^SyntaxError: [^\0]*^Node\.js v(?:1\d|2[01]|22\.(?:\d|1[0-7])|23\.[0-5])\.", re.MULTILINE
)


def lacks_typescript(output: str, language: Language | None) -> bool:
    """Tell whether a script failed because this Node does not run TypeScript."""
    if _UNKNOWN_TYPESCRIPT.search(output) or _NO_TOP_LEVEL_AWAIT in output:
        return True
    return language == "typescript" and _READ_AS_JAVASCRIPT.search(output) is not None


# program → its Debian package, for hints
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
    stem, dot, extension = path[path.rfind("/") + 1 :].rpartition(".")
    return EXTENSIONS.get(f"{dot}{extension}".lower()) if stem else None


# PEP 263: in the first line, or in the second when the first is a comment or empty.
_CODING = re.compile(
    rb"\A(?:[ \t\f]*(?:#[^\r\n]*)?\r?\n)?[ \t\f]*#[^\r\n]*?coding[:=][ \t]*([-\w.]+)"
)
_QUADRATIC = ("punycode", "idna")  # not used for programs, and decoding megabytes takes hours


def source_text(data: bytes, language: Language | None) -> str:
    """Return the text of a script: UTF-8, or the encoding that a Python file declares.

    Bytes that cannot be decoded are replaced, and never an error: the interpreter decides.
    """
    encoding = "utf-8"
    declared = _CODING.match(data) if language == "python" else None
    if declared is not None and not data.startswith(BOM_UTF8):
        encoding = declared[1].decode()
    try:
        if lookup(encoding).name not in _QUADRATIC:
            return data.decode(encoding, "replace").removeprefix("\ufeff")
        return data.decode("utf-8-sig", "replace")
    except (LookupError, ValueError):  # no such encoding, or not one of text
        return data.decode("utf-8-sig", "replace")
