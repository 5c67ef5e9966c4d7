"""Which names a command of a script can have."""

import re

from skillpouch.shell.errors import CommandNameError

OWN_COMMANDS = ("help", "discover", "pmap", "result")
_KEYWORDS = frozenset(
    (
        *("if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case"),
        *("esac", "in", "function", "select", "time", "coproc"),
    )
)
# The shell looks for these before it looks for commands of ours.
_SPECIAL = frozenset(
    (
        *("break", "continue", "return", "exit", "export", "readonly", "set", "unset", "shift"),
        *("source", "eval", "exec", "trap", "times", "local", "declare", "typeset"),
    )
)
_COMMAND = re.compile(r"[^\W\d][\w.:-]*\Z")


def check_command_name(name: str) -> None:
    """Raise CommandNameError unless a script can call a command by this name."""
    if name in _KEYWORDS:
        raise CommandNameError(name, "it is a word of the shell's own language")
    if name in _SPECIAL:
        raise CommandNameError(name, "the shell never looks for another command of this name")
    if name in OWN_COMMANDS:
        raise CommandNameError(name, "every script has a command of this name")
    if not _COMMAND.match(name):
        raise CommandNameError(name, "letters, digits, '_', '.', ':' and '-' make a name")
