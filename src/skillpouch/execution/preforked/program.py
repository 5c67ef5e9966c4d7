"""MainProgram: runs a file as `python FILE …` would, in a process that is running already."""

from __future__ import annotations

import builtins
import os
import sys
from _frozen_importlib_external import SourceFileLoader

from skillpouch.execution.preforked import interpreter_exit
from skillpouch.execution.preforked.interpreter_exit import status_of
from skillpouch.execution.preforked.warmup import warmup_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any

    from skillpouch.execution.preforked.import_hints import ImportHints
    from skillpouch.execution.preforked.prefault import Pages


class Compiled:
    """Files compiled ahead of the calls that run them."""

    def __init__(self) -> None:
        self._code: dict[str, tuple[tuple[int, ...], CodeType]] = {}

    def add(self, file: str) -> None:
        """Compile a file; raises what Python would raise for it."""
        self._code[file] = (_identity(file), compile_file(file))

    def put(self, file: str, code: CodeType) -> None:
        """Take code for what a file says."""
        self._code[file] = (_identity(file), code)

    def drop(self, file: str) -> None:
        del self._code[file]

    def get(self, file: str) -> CodeType | None:
        """Return the code of a file that has not changed since."""
        identity, code = self._code.get(file, (None, None))
        return code if identity == _identity(file) else None


def compile_file(file: str) -> CodeType:
    with open(file, "rb") as source:
        return compile(source.read(), file, "exec", 0, True)


def _identity(file: str) -> tuple[int, ...]:
    found = os.stat(file)
    return found.st_ino, found.st_size, found.st_ctime_ns  # which changes with all the others


# Where the folder of the script will be; imports may put others before it.
_PLACE = "/dev/null/script"
_NOT_YET = "runner"  # the name of the runner while it only defines what calls will use


class MainProgram:
    """The main program of a child: told what it is, then run, ended and left."""

    def __init__(
        self,
        compiled: Compiled,
        runner: str,
        started_by: tuple[str, ...],
        hints: ImportHints,
        pages: Pages,
    ) -> None:
        self._compiled = compiled
        self._started_by = started_by  # the first words of every command
        self.all_words: list[str] = getattr(sys, "orig_argv", [])  # since 3.10
        self._runner = runner  # calls functions of a script, and is given its code
        self._hints = hints
        self._pages = pages
        self._has_own_path = not getattr(sys.flags, "safe_path", sys.flags.isolated)
        sys.path.insert(0, _PLACE)
        self._file = ""
        self._status = 0
        self._runs: CodeType | None = None
        self._runner_module: Any = None  # with all that the runner defines
        self._runner_names: frozenset[str] = frozenset()
        self._call_main: CodeType | None = None
        self.hidden = ""
        self.module: dict[str, Any] = {}
        self.error: BaseException | None = None
        self.keeps: object = None
        self._first = sys.modules["__main__"]  # would be taken apart with its last name

    def prepare(self, script: str, hidden: str) -> None:
        """Have the runner define its functions ahead of all calls, which only call them then.

        `hidden` is a module that waiting for children loads, and no script has asked for.
        """
        self.hidden = hidden
        code = self._compiled.get(self._runner) if self._runner else None
        if code is None:
            return
        module = _main_module(self._runner)
        module.__dict__.update(COMPILED=self._compiled, __name__=_NOT_YET)
        exec(code, module.__dict__)
        module.__name__ = "__main__"
        module.SPECS[script] = module.spec_of(script)
        self._compiled.put(*warmup_code())
        self._runner_module, self._runner_names = module, frozenset(module.__dict__)
        self._call_main = _last_lines(self._runner)

    def argv(self, words: tuple[str, ...]) -> list[str]:
        """Return a whole command, of which `words` are the last."""
        return [*self._started_by, *words]

    def become(self, words: tuple[str, ...], changed: dict[bytes, bytes]) -> None:
        """Take on a command: its words after those that started the interpreter.

        Of the variables that it sets, those for the runner alone are taken out.
        """
        self.all_words[len(self._started_by) :] = sys.argv[:] = words
        self._file = words[0]
        self._take_path(changed.get(b"PYTHONPATH"))
        if self.hidden:
            sys.modules.pop(self.hidden, None)
        module = self._runner_module if self._file == self._runner else None
        if module is not None:
            self._runs = self._call_main
            module.GIVEN = {name: changed.pop(name) for name in module.TAKEN if name in changed}
        else:
            module = _main_module(self._file)
        sys.modules["__main__"] = module
        self.module = module.__dict__

    def code(self) -> CodeType:
        return self._runs or self._compiled.get(self._file) or compile_file(self._file)

    def end(self) -> None:
        """Say what went wrong and do what was put off until now."""
        self._hints.write()
        interpreter_exit.flush_quietly()
        error, self.error = self.error, None
        self._status = interpreter_exit.finish(status_of(error))

    def let_go(self) -> None:
        """Make garbage of what the program has made."""
        if self._runs is not None:
            # It is older than the call, and so not looked at when garbage is collected.
            interpreter_exit.forget_added(self.module, self._runner_names)
        self.module = {}
        self._runner_module = None
        interpreter_exit.let_go(self._hints.known)

    def leave(self) -> None:
        interpreter_exit.write_out()
        self._pages.note()
        interpreter_exit.leave(self._status)

    def _take_path(self, given: bytes | None) -> None:
        """Set the module search path as a fresh Python would have it for this file."""
        own = [self._file.rpartition("/")[0]] if self._has_own_path else []
        if given is not None and not sys.flags.ignore_environment:
            own += os.fsdecode(given).split(os.pathsep)
        place = sys.path.index(_PLACE) if _PLACE in sys.path else 0
        sys.path[place : place + 1] = own


def _last_lines(file: str) -> CodeType:
    """Return the end of a runner, where it calls its `main`, on the lines where that stands."""
    with open(file, encoding="utf-8") as source:
        before, _, _ = source.read().rpartition("if __name__")
    call = 'if __name__ == "__main__" and main():\n    sys.exit(1)\n'
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
