"""Calls `handler` or `main` of a Python script: call_python.py handler|main SCRIPT.

Run by path and alone, on any Python from 3.9 on. The value that the function returns is written
after a marker, so that what it prints and what it returns stay apart.
"""

import importlib.util
import inspect
import json
import os
import sys
import traceback
from typing import Any


def main() -> int:
    mode, script = sys.argv[1:3]
    marker = os.environ.pop("KITBAG_MARKER")
    arguments = read_arguments(os.environ.pop("KITBAG_ARGUMENTS"))
    scripts = os.environ.pop("KITBAG_SCRIPTS", "")
    sys.argv = [script]
    sys.path[0] = os.path.dirname(script)
    if scripts and scripts not in sys.path:
        sys.path.insert(1, scripts)
    try:
        function = getattr(load(script), mode)
        value = function(arguments) if mode == "handler" else call_main(function, arguments)
        if inspect.isawaitable(value):
            import asyncio

            value = asyncio.run(wait_for(value))
        text = json.dumps(value, default=str)
    except Exception as error:
        traceback.print_exc()
        finish(marker, json.dumps({"error": str(error) or type(error).__name__}))
        return 1
    if not (mode == "main" and value is None):
        finish(marker, text)
    return 0


def read_arguments(source: str) -> Any:
    if source == "stdin":
        return json.loads(sys.stdin.buffer.read() or b"{}")
    if source == "variable":
        return json.loads(os.environ["TOOL_ARGS"])
    with open(os.environ["TOOL_ARGS_FILE"], encoding="utf-8") as file:
        return json.load(file)


def load(script: str) -> Any:
    name = os.path.splitext(os.path.basename(script))[0]
    spec: Any = importlib.util.spec_from_file_location(name, script)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def call_main(function: Any, arguments: Any) -> Any:
    """Pass arguments by name, as the types that the annotations ask for."""
    try:
        import typing

        hints = typing.get_type_hints(function)
    except Exception:
        hints = {}
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name not in arguments:
            continue
        value = convert(arguments[name], hints.get(name))
        if parameter.kind is parameter.POSITIONAL_ONLY:
            positional.append(value)
        else:
            named[name] = value
    return function(*positional, **named)


def convert(value: Any, hint: Any) -> Any:
    import enum
    import pathlib

    kinds = (pathlib.PurePath, enum.Enum)
    wanted = isinstance(hint, type) and issubclass(hint, kinds) and value is not None
    return hint(value) if wanted else value


async def wait_for(value: Any) -> Any:
    return await value


def finish(marker: str, text: str) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write((marker + text).encode("utf-8", "replace"))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
