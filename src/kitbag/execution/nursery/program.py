"""A file that is run the way `python FILE …` runs it, in a process that is already running."""

from __future__ import annotations

import builtins
import os
import sys
from _frozen_importlib_external import SourceFileLoader

from kitbag.execution.nursery import ending
from kitbag.execution.nursery.compiled import compile_file
from kitbag.execution.nursery.dress_rehearsal import rehearsal_code
from kitbag.execution.nursery.outcome import status_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any

    from kitbag.execution.nursery.compiled import Compiled
    from kitbag.execution.nursery.lessons import Lessons
    from kitbag.execution.nursery.pages import Pages


# Where the folder of the script will be; imports may put others before it.
_PLACE = "/dev/null/script"
_NOT_YET = "runner"  # the name of the runner while it only defines what calls will use


class Program:
    """The main program of a child: told what it is, then run, ended and left."""

    def __init__(self, compiled: Compiled, runner: str, lessons: Lessons, pages: Pages) -> None:
        self._compiled = compiled
        self._runner = runner  # calls functions of a script, and is given its code
        self._lessons = lessons
        self._pages = pages
        self._search_path = os.environ.get("PYTHONPATH", "")
        sys.path.insert(0, _PLACE)
        self._file = ""
        self._status = 0
        self._runs: CodeType | None = None
        self._runner_module: Any = None  # with all that the runner defines
        self._runner_names: frozenset[str] = frozenset()
        self._call_main: CodeType | None = None
        self._hidden = ""
        self.module: dict[str, Any] = {}
        self.error: BaseException | None = None

    def prepare(self, hidden: str) -> None:
        """Have the runner define its functions ahead of all calls, which only call them then.

        `hidden` is a module that waiting for children loads, and no script has asked for.
        """
        self._hidden = hidden
        code = self._compiled.get(self._runner) if self._runner else None
        if code is None:
            return
        module = _main_module(self._runner)
        module.__dict__.update(COMPILED=self._compiled, __name__=_NOT_YET)
        exec(code, module.__dict__)
        module.__name__ = "__main__"
        self._compiled.put(*rehearsal_code())
        self._runner_module, self._runner_names = module, frozenset(module.__dict__)
        self._call_main = _last_lines(self._runner)

    def become(self, argv: list[str], skipped: int) -> None:
        """Take on a command, of which the first `skipped` words started the interpreter."""
        sys.orig_argv[:] = argv
        sys.argv[:] = argv[skipped:]
        self._file = sys.argv[0]
        self._take_path()
        if self._hidden:
            sys.modules.pop(self._hidden, None)
        module = self._runner_module if self._file == self._runner else None
        if module is not None:
            self._runs = self._call_main
        else:
            module = _main_module(self._file)
        sys.modules["__main__"] = module
        self.module = module.__dict__

    def code(self) -> CodeType:
        return self._runs or self._compiled.get(self._file) or compile_file(self._file)

    def end(self) -> None:
        """Say what went wrong and do what was put off until now."""
        self._lessons.write()
        ending.flush_quietly()
        error, self.error = self.error, None
        self._status = ending.finish(status_of(error))

    def let_go(self) -> None:
        """Make garbage of what the program has made."""
        if self._runs is not None:
            # It is older than the call, and so not looked at when garbage is collected.
            for name in [name for name in self.module if name not in self._runner_names]:
                del self.module[name]
        self.module = {}
        self._runner_module = None
        ending.let_go(self._lessons.known)

    def leave(self) -> None:
        ending.write_out()
        self._pages.note()
        ending.leave(self._status)

    def _take_path(self) -> None:
        """Set the module search path as a fresh Python would have it for this file."""
        own = []
        if not getattr(sys.flags, "safe_path", sys.flags.isolated):
            own.append(self._file.rpartition("/")[0])
        given = os.environ.get("PYTHONPATH", "")
        if given != self._search_path and not sys.flags.ignore_environment:
            own += given.split(os.pathsep)
        place = sys.path.index(_PLACE) if _PLACE in sys.path else 0
        sys.path[place : place + 1] = own


def _last_lines(file: str) -> CodeType:
    """Return the end of a runner, where it calls its `main`, on the lines where that stands."""
    with open(file, encoding="utf-8") as source:
        before, _, _ = source.read().rpartition("if __name__")
    call = 'if __name__ == "__main__":\n    sys.exit(main())\n'
    return compile("\n" * before.count("\n") + call, file, "exec")


def _main_module(file: str) -> Any:
    module = type(sys)("__main__")
    module.__dict__.update(
        __loader__=SourceFileLoader("__main__", file),
        __annotations__={},
        __builtins__=builtins,
        __file__=file,
        __cached__=None,
    )
    return module
