"""The interpreter and flags that a script's first line asks for, when they are well known."""

import re

_LONGEST = 256  # bytes, as the Linux kernel reads it
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
    """The words of `#!/usr/bin/env -S python3 -u` after `env`; empty when there is no use for them.

    An interpreter outside the usual folders belongs to the machine of the author and is ignored.
    Runners that download what they run (`npx`, `uvx`) are returned as they are.
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
    """The words of a first line that is short and plain enough to mean the same to everyone."""
    head = text[: _LONGEST + 1]
    data = head.encode("utf-8", "replace") if isinstance(head, str) else head
    data = data.removeprefix(b"\xef\xbb\xbf")
    line, newline, _ = data.partition(b"\n")
    if not line.startswith(b"#!") or len(line) > _LONGEST or (not newline and len(head) > _LONGEST):
        return []
    words = line[2:].decode("utf-8", "replace").split()
    return words if all(_PLAIN_WORD.fullmatch(word) for word in words) else []


def _after_env(words: list[str]) -> list[str]:
    """What `env` runs: past its own options and the variables it sets."""
    position = 0
    while position < len(words):
        word = words[position]
        if word.startswith("-S") and len(word) > len("-S"):  # -Spython3
            return [word[2:], *words[position + 1 :]]
        if not word.startswith("-") and not _ASSIGNMENT.match(word):
            break
        position += 1
    return words[position:]
