"""Run as a script: starts each program named on stdin and writes down the parser it really builds.

A program gets its own forked process, a moment of time, no network, and stand-ins for every
module that is not in the standard library, so that it reaches its parser without its packages.
Each line of the answer is JSON: {"path": …, "parser": … or null, "shared": …, "why": …}, where
`shared` tells that code of another module got hold of the parser and may have added to it.
"""

import argparse
import contextlib
import importlib.abc
import importlib.machinery
import json
import os
import resource
import signal
import socket
import sys
import tempfile
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

SECONDS = 10

PARTS_OF_A_PARSER = (argparse._ActionsContainer, argparse._SubParsersAction)
SHARED: list[str] = []


class StandIn(types.ModuleType):
    """Takes part in whatever a program does with a package before it reads its arguments."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return StandIn(name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = (*args, *kwargs.values())
        if self.__name__ != "autocomplete" and any(
            isinstance(one, PARTS_OF_A_PARSER) for one in given
        ):
            SHARED.append(self.__name__)
        # As a decorator it leaves the function alone.
        return args[0] if len(args) == 1 and callable(args[0]) else StandIn("made")

    def __mro_entries__(self, _: Any) -> tuple[type, ...]:
        return (object,)

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __instancecheck__(self, _: Any) -> bool:
        return False

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __getitem__(self, _: Any) -> Any:
        return StandIn("item")

    def __or__(self, _: Any) -> Any:
        return self

    __ror__ = __add__ = __radd__ = __truediv__ = __mod__ = __or__

    def __lt__(self, _: Any) -> bool:
        return False

    __gt__ = __le__ = __ge__ = __contains__ = __lt__

    def __len__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        return True


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds every module that the standard library does not have."""

    def find_spec(self, name: str, *_: Any) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] in sys.stdlib_module_names:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = StandIn(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """Leave the stand-in as it is."""


def describe(parser: argparse.ArgumentParser) -> dict[str, Any]:
    arguments: list[dict[str, Any]] = []
    commands: dict[str, argparse.ArgumentParser] = {}
    exclusive = [
        [action.dest for action in group._group_actions]
        for group in parser._mutually_exclusive_groups
    ]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action._name_parser_map.items():
                if any(choice.dest == name for choice in action._choices_actions) or not any(
                    known is inner for known in commands.values()
                ):
                    commands.setdefault(name, inner)
        elif not isinstance(action, argparse._HelpAction | argparse._VersionAction):
            arguments.append(_describe_action(action))
    distinct = {id(inner): name for name, inner in reversed(commands.items())}
    return {
        "arguments": arguments,
        "exclusive": exclusive,
        "commands": {name: describe(commands[name]) for name in reversed(distinct.values())},
    }


def _describe_action(action: argparse.Action) -> dict[str, Any]:
    choices: Any = action.choices
    if choices is not None:
        choices = "unknown" if isinstance(choices, StandIn) else list(choices)
    kind = action.type
    return {
        "dest": action.dest,
        "flags": list(action.option_strings),
        "nargs": action.nargs,
        "required": action.required,
        "type": getattr(kind, "__name__", "") if isinstance(kind, type) else type(kind).__name__,
        "choices": choices if choices is None or _is_plain(choices) else "unknown",
        "action": type(action).__name__,
        "line": getattr(action, "made_in", None),
    }


def _is_plain(choices: Any) -> bool:
    plain = (str, int, float, type(None))
    return all(isinstance(choice, plain) for choice in choices)


def watch(program: str, answer: int) -> None:
    """Make argparse tell what it was given, and stop the program when it parses."""
    build = argparse.ArgumentParser.__init__
    declare = argparse._ActionsContainer.add_argument

    def declare_here(self: Any, *args: Any, **kwargs: Any) -> argparse.Action:
        action = declare(self, *args, **kwargs)
        caller = sys._getframe(1)
        own = caller.f_code.co_filename == program
        action.made_in = caller.f_lineno if own else 0  # type: ignore[attr-defined]  # our note
        return action

    def build_here(self: Any, *args: Any, **kwargs: Any) -> None:
        if any(isinstance(parent, StandIn) for parent in kwargs.get("parents", ())):
            SHARED.append("parents")
        kwargs["parents"] = [
            one for one in kwargs.get("parents", ()) if not isinstance(one, StandIn)
        ]
        build(self, *args, **kwargs)

    def stop(self: argparse.ArgumentParser, *_: Any, **__: Any) -> NoReturn:
        seen = {"path": program, "parser": describe(self), "shared": bool(SHARED)}
        text = json.dumps(seen, default=lambda _: "unknown")
        with os.fdopen(answer, "w") as out:
            out.write(text)
        os._exit(0)

    argparse._ActionsContainer.add_argument = declare_here  # type: ignore[method-assign]  # a watch
    argparse.ArgumentParser.__init__ = build_here  # type: ignore[method-assign]  # a watch
    for name in ("parse_args", "parse_known_args", "parse_intermixed_args", "print_help", "error"):
        setattr(argparse.ArgumentParser, name, stop)


def _no_network(*_: Any) -> NoReturn:
    raise OSError("no network here")


def run(program: str) -> None:
    """Run a program as `python program` would, with nothing on its command line."""
    source = Path(program)
    sys.argv = [program]
    sys.path.insert(0, str(source.parent))
    sys.meta_path.insert(0, StandIns())
    for name in [name for name in sys.modules if name.partition(".")[0] == source.stem]:
        if name not in ("argparse", "json", "__main__"):
            del sys.modules[name]
    package = source.parent.name if (source.parent / "__init__.py").exists() else None
    names: dict[str, Any] = {
        "__name__": "__main__",
        "__file__": program,
        "__package__": package,
        "__builtins__": __builtins__,
    }
    exec(compile(source.read_bytes(), program, "exec", dont_inherit=True), names)
    for entry in ("main", "cli", "run", "_main"):
        if callable(names.get(entry)):
            names[entry]()


def record(program: str) -> str:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _become(program, writing)
    os.close(writing)
    with os.fdopen(reading) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return text or json.dumps({"path": program, "parser": None, "why": "ended without an answer"})


def _become(program: str, answer: int) -> NoReturn:
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    signal.alarm(SECONDS)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    for name in ("connect", "connect_ex", "bind"):
        setattr(socket.socket, name, _no_network)
    watch(program, answer)
    why = "it never parsed"
    try:
        run(program)
    except BaseException as error:  # noqa: BLE001 - a program may end in any way
        why = f"{type(error).__name__}: {error}"
    with contextlib.suppress(OSError), os.fdopen(answer, "w") as out:
        out.write(json.dumps({"path": program, "parser": None, "why": why}))
    os._exit(1)


def main(programs: Sequence[str]) -> None:
    """Record one program after the other, in a directory that is theirs to write in."""
    sys.dont_write_bytecode = True
    with tempfile.TemporaryDirectory() as home:
        os.chdir(home)
        os.environ["HOME"] = home
        for program in programs:
            sys.stdout.write(record(program) + "\n")
        os.chdir("/")


if __name__ == "__main__":
    main(sys.stdin.read().splitlines())
