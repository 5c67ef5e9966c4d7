"""What a warm call does not do as a fresh Python does, each with its reason; nothing else differs.

docs/limits.md tells users of these.
"""

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.execution.preforked.ways import Ran

_UNREADABLE = "it cannot be read or compiled"

# Cases that are never forked, with the reason that a result gives.
ALWAYS_COLD = dict.fromkeys(
    (
        "syntax_error",
        "indent_error",
        "tab_error",
        "unclosed_bracket",
        "unterminated_text",
        "return_outside",
        "await_outside",
        "null_bytes",
        "future_unknown",
        "wrong_encoding",
        "unknown_encoding",
        "byte_order_mark_contradicted",
        "null_byte_first",
        "null_byte_in_text",
        "utf_16",
        "line_continuation_at_end",
        "too_deep_nesting",
    ),
    _UNREADABLE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A difference: `adjust` takes it away from either result, and leaves all else."""

    why: str
    adjust: Callable[[Ran], Ran]


def _without(pattern: bytes, instead: bytes = b"") -> Callable[[Ran], Ran]:
    def adjust(ran: Ran) -> Ran:
        return replace(
            ran,
            stdout=re.sub(pattern, instead, ran.stdout, flags=re.MULTILINE),
            stderr=re.sub(pattern, instead, ran.stderr, flags=re.MULTILINE),
        )

    return adjust


_FRAME = "the script runs on one frame more, that of the file which started the interpreter"
_LOADED = "what the prefork server needs itself, and what calls have loaded, is loaded already"
_KERNEL = "the kernel tells how the process was started, which was as a prefork server"
_BELOW = rb'^.*preforked/importlib_bootstrap.py".*\n(?:    .*\n)?'

DIFFERENT = {
    "frames": Known(why=_FRAME, adjust=_without(rb"^[12]$", b"1")),
    "frame_above": Known(
        why=_FRAME,
        adjust=_without(
            rb"^(?:<frame .*importlib_bootstrap.py.*|call stack is not deep enough)$", b"top"
        ),
    ),
    "print_stack": Known(why=_FRAME, adjust=_without(_BELOW)),
    "inspect_stack": Known(why=_FRAME, adjust=_without(rb"(, '<module>')+")),
    "segv_faulthandler": Known(why=_FRAME, adjust=_without(_BELOW)),
    "recursion_depth": Known(why=_FRAME, adjust=_without(rb"^99[678]$")),
    "recursion_error_text": Known(why=_FRAME, adjust=_without(rb"repeated 99[456] more")),
    "logging_caller": Known(
        why=_FRAME, adjust=_without(rb"^(?:importlib_bootstrap.py:\d+|script.py:5) ")
    ),
    "atexit_exit": Known(
        why="what runs at exit is called by a function, and C code has no line of its own",
        adjust=_without(rb'^Traceback .*\n.*preforked/interpreter_exit.py".*\n    .*\n'),
    ),
    "del_raises_at_exit": Known(
        why="the interpreter is not taken apart, so that the line can still be read",
        adjust=_without(rb'^    raise ValueError\("in del"\)\n'),
    ),
    "stderr_closed": Known(
        why="Python shows how many hold the error that it cannot print; here more do",
        adjust=_without(rb"^object refcount : \d+$"),
    ),
    "modules": Known(why=_LOADED, adjust=_without(rb"^\[.*\]$")),
    "gc_frozen": Known(
        why="what was there before the call is frozen, to be told from what the call makes",
        adjust=_without(rb"^\d+$"),
    ),
    "parent": Known(
        why="the prefork server is outside the process table of its calls, where it has no number",
        adjust=_without(rb"^[01]$"),
    ),
    "command_line_of_the_kernel": Known(why=_KERNEL, adjust=_without(rb"^\[.*\]$")),
    "variables_of_the_kernel": Known(why=_KERNEL, adjust=_without(rb"^\[.*\]$")),
}

if sys.version_info >= (3, 12):
    _LEAK = "these Pythons meet the error that such a status makes once more, at another moment"
    DIFFERENT |= {
        name: Known(why=_LEAK, adjust=_without(rb"(?s)^(?:Trace|Overflow|Exception ignored on).*"))
        for name in ("exit_huge", "exit_unprintable")
    }

# Cases in which confinement itself shows, cold or warm.
NOT_BARE = {
    "identity": "a user namespace has no groups but one's own",
    "mp_forkserver": "sockets are denied, but for pairs",
    "mp_manager": "sockets are denied, but for pairs",
    "no_network": "sockets are denied",
    "parent": "process numbers are those of the call's own table",
    "process_state": "privileges are dropped and system calls filtered",
    "rlimits": "limits are set",
    "signals": "the C library's way to start a program ignores two signals of its own",
    "subproc_signals": "the C library's way to start a program ignores two signals of its own",
    "subproc_left_running": "a bare caller waits for whoever holds its pipes",
}
