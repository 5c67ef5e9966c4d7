"""Runs a shell script in a tracing bash: what its variables hold, without what it would do.

Before each command a trap looks at all variables. Programs are not run, except those that only
turn text into text, so a script gets through its arguments, and no further than it can alone.
"""

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

# Values are compared only if they hold this text, so that traces stay short.
MARK = "Zq"
_STEPS = 1500

# No command substitution in the trap: its subshell would call the trap again.
_PRELUDE = r"""
__zt_steps=0
__zt_builtins=" $(compgen -b | tr '\n' ' ') "
__zt() {
  # Not before: in a start-up file this option asks for a debugger.
  (( __zt_steps == 0 )) && shopt -s extdebug
  (( ++__zt_steps > @STEPS@ )) && builtin exit 99
  builtin declare -p >&@LOG@ 2>/dev/null
  builtin printf '\x1e' >&@LOG@
  local __zt_first=${__zt_command%%[[:space:]]*}
  if (( BASH_LINENO[0] < ${ZT_EXITS_FROM:-0} && ${#FUNCNAME[@]} <= 2 )); then
    [[ $__zt_first == exit ]] && builtin return 1
  fi
  case $__zt_first in
    exec|kill|.|source|wait|enable|disown) builtin return 1;;
    basename|dirname|sed|cut|tr|grep|head|getopt|expr|cat) builtin return 0;;
    *=*|\(*|\[*|for|select|case|while|if) builtin return 0;;
  esac
  builtin declare -F -- "$__zt_first" >/dev/null && builtin return 0
  [[ $__zt_builtins == *" $__zt_first "* ]]
}
set -T
# `!`: whatever `set -e` says
trap '__zt_command=$BASH_COMMAND; if __zt; then :; else ! :; fi' DEBUG
"""
_OWN = re.compile(r"BASH_|__zt|FUNCNAME$|_$|DIRSTACK$|PIPESTATUS$|words$")
_DECLARED = re.compile(r"^declare -[^ ]+ ([A-Za-z_]\w*)=", re.MULTILINE)


class Trace(NamedTuple):
    """The variables that ever held a marked value: name → every such value, as bash shows it."""

    held: dict[str, list[str]]
    values: dict[str, list[str]]  # every value of every variable, marked or not
    status: int
    output: str


def trace(
    script: Path,
    words: Sequence[str],
    cwd: Path,
    *,
    runner: Sequence[str] = (),
    exits_from: int = 0,
) -> Trace:
    """Run a script with these words; `runner` is a command that confines it.

    Before the line `exits_from` it does not exit, so that what it misses here does not stop it.
    """
    read_end, write_end = os.pipe()
    prelude = cwd / "prelude.bash"
    prelude.write_text(_PRELUDE.replace("@STEPS@", str(_STEPS)).replace("@LOG@", str(write_end)))
    log = cwd / "trace.log"
    with log.open("wb") as sink:
        copier = subprocess.Popen(["cat"], stdin=read_end, stdout=sink)
        os.close(read_end)
        try:
            done = subprocess.run(
                [*runner, "bash", str(script), *words],
                cwd=cwd,
                env={
                    "PATH": os.environ["PATH"],
                    "HOME": str(cwd),
                    "BASH_ENV": str(prelude),
                    "ZT_EXITS_FROM": str(exits_from),
                },
                stdin=subprocess.DEVNULL,
                capture_output=True,
                pass_fds=(write_end,),
                timeout=60,
                check=False,
            )
        finally:
            os.close(write_end)
            copier.wait()
    output = (done.stdout + done.stderr).decode(errors="replace")
    return _trace(log.read_text(errors="surrogateescape"), done.returncode, output)


def _trace(text: str, status: int, output: str) -> Trace:
    held: dict[str, list[str]] = {}
    values: dict[str, list[str]] = {}
    for state in text.split("\x1e"):
        for name, value in _variables(state):
            known = values.setdefault(name, [])
            if value not in known:
                known.append(value)
                if MARK in value:
                    held.setdefault(name, []).append(value)
    return Trace(held, values, status, output)


def _variables(state: str) -> Iterator[tuple[str, str]]:
    places = list(_DECLARED.finditer(state))
    for place, match in enumerate(places):
        end = places[place + 1].start() if place + 1 < len(places) else len(state)
        if not _OWN.match(match[1]):
            yield match[1], state[match.end() : end].partition("\ndeclare ")[0].rstrip("\n")
