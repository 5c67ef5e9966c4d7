"""MainProgram: runs a file as `python FILE …` would, in a process that is running already."""

from __future__ import annotations

import builtins
import os
import sys
from _frozen_importlib_external import SourceFileLoader

from skillpouch.execution.preforked import interpreter_exit
from skillpouch.execution.preforked.interpreter_exit import status_of
from skillpouch.execution.preforked.startup.sitecustomize import package_of
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
        """Compile a file; raise the errors that Python would raise."""
        self._code[file] = (_identity(file), compile_file(file))

    def put(self, file: str, code: CodeType) -> None:
        """Use `code` for a file."""
        self._code[file] = (_identity(file), code)

    def drop(self, file: str) -> None:
        del self._code[file]

    def get(self, file: str) -> CodeType | None:
        """Return the code of a file, None if the file has changed since."""
        identity, code = self._code.get(file, (None, None))
        return code if identity == _identity(file) else None


def compile_file(file: str) -> CodeType:
    with open(file, "rb") as source:
        return compile(source.read(), file, "exec", 0, True)


def _identity(file: str) -> tuple[int, ...]:
    found = os.stat(file)
    # The ctime changes with any other change, inode(7).
    return found.st_ino, found.st_size, found.st_ctime_ns


# Marks the position of the script's folder in `sys.path`: imports may insert others before it.
_PLACE = "/dev/null/script"
_STARTUP = __file__.rpartition("/")[0] + "/startup"
_NOT_YET = "runner"  # `__name__` of the runner while it only defines its functions


class MainProgram:
    """The main program of a child: set up by `become`, then run, ended and left."""

    def __init__(
        self,
        compiled: Compiled,
        runner: str,
        started_by: tuple[str, ...],
        hints: ImportHints,
        pages: Pages,
    ) -> None:
        self._compiled = compiled
        self._started_by = started_by  # the interpreter and its options
        self.all_words: list[str] = getattr(sys, "orig_argv", [])  # since 3.10
        self._runner = runner  # the file that calls a function of the script
        self._hints = hints
        self._pages = pages
        self._has_own_path = not getattr(sys.flags, "safe_path", sys.flags.isolated)
        sys.path.insert(0, _PLACE)
        self._file = ""
        self._status = 0
        self._runs: CodeType | None = None
        self._runner_module: Any = None  # the module of the runner, with its functions defined
        self._runner_names: frozenset[str] = frozenset()
        self._call_main: CodeType | None = None
        self._packages: dict[str, str] = {}  # script → the package that it is in
        self.hidden = ""
        self.module: dict[str, Any] = {}
        self.error: BaseException | None = None
        self.keeps: object = None
        # Kept alive: without a reference, the module and its names would be destroyed.
        self._first = sys.modules["__main__"]

    def prepare(self, script: str, root: str, hidden: str) -> None:
        """Run the definitions of the runner ahead of all calls, which then only call them.

        `root` is the importable folder of the skill, if there is one. `hidden` is a module that the
        server needs to wait for children, but the script did not import.
        """
        self.hidden = hidden
        if root:
            self._packages[script] = package_of(script, root)
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
        """Return the whole command for its last `words`."""
        return [*self._started_by, *words]

    def become(self, words: tuple[str, ...], changed: dict[bytes, bytes]) -> None:
        """Set up a command: `words` are those after the interpreter and its options.

        Variables for the runner alone are removed from `changed`.
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
            module.__package__ = self._packages.get(self._file) or None
        sys.modules["__main__"] = module
        self.module = module.__dict__

    def code(self) -> CodeType:
        return self._runs or self._compiled.get(self._file) or compile_file(self._file)

    def end(self) -> None:
        """Report the error of the program, and run its exit handlers."""
        self._hints.write()
        interpreter_exit.flush_quietly()
        error, self.error = self.error, None
        self._status = interpreter_exit.finish(status_of(error))

    def let_go(self) -> None:
        """Drop all references to the program's objects."""
        if self._runs is not None:
            # The runner's module is older than the call and frozen, so the collector does not visit
            # it.
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
            own += [path for path in os.fsdecode(given).split(os.pathsep) if path != _STARTUP]
        place = sys.path.index(_PLACE) if _PLACE in sys.path else 0
        sys.path[place : place + 1] = own


def _last_lines(file: str) -> CodeType:
    """Return the code of a runner's last lines, which call `main`, with their line numbers."""
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
