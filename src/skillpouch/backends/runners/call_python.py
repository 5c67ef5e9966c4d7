"""Calls `handler` or `main` of a Python script: call_python.py handler|main SCRIPT.

Runs by path, without the rest of Skillpouch, on Python 3.9 or later. The value that the function
returns is written to a file of its own, separate from what the function prints. Every import here
is part of every call: modules that few calls need are imported inside functions.
"""

from __future__ import annotations

import json
import os
import sys

# From modules that every interpreter has loaded already; importlib would have to be read.
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import SourceFileLoader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Set by the prefork server: files that were compiled ahead of the call, module specs that were made
# ahead, and the variables that otherwise come by the environment.
COMPILED: Any = globals().get("COMPILED")
SPECS: dict[str, ModuleSpec] = {}
GIVEN: dict[bytes, bytes] = {}
TAKEN = (b"SKILLPOUCH_ANSWER", b"SKILLPOUCH_ARGUMENTS", b"SKILLPOUCH_SCRIPTS")
# Made once in the prefork server, for all its calls.
encode = json.JSONEncoder(allow_nan=False).encode
decode = json.JSONDecoder().raw_decode
# Values of these types need no conversion: JSON has them.
PLAIN = (str, int, float, bool, list, dict, "str", "int", "float", "bool", "list", "dict")


def main() -> int:
    mode, script = sys.argv[1:3]
    given = GIVEN or take_variables()
    answer = int(given[b"SKILLPOUCH_ANSWER"])
    arguments = read_arguments(given[b"SKILLPOUCH_ARGUMENTS"])
    sys.argv = [script]
    take_path(script.rpartition("/")[0], os.fsdecode(given.get(b"SKILLPOUCH_SCRIPTS", b"")))
    try:
        function = getattr(load(script), mode)
        value = function(arguments) if mode == "handler" else call_main(function, arguments)
        if hasattr(value, "__await__"):
            value = wait_for(value)
        text = encode(value)
    except Exception as error:
        print_traceback(error)
        finish(answer, json.dumps({"error": str(error) or type(error).__name__}))
        return 1
    if not (mode == "main" and value is None):
        finish(answer, text)
    return 0


def take_variables() -> dict[bytes, bytes]:
    """Remove the variables for this file from the environment that the script sees."""
    given = {name: os.environb.pop(name) for name in TAKEN if name in os.environb}
    os.set_inheritable(int(given[b"SKILLPOUCH_ANSWER"]), False)
    return given


def take_path(folder: str, scripts: str) -> None:
    sys.path[0] = folder
    if scripts and scripts != folder and scripts not in sys.path:
        sys.path.insert(1, scripts)


def print_traceback(error: BaseException) -> None:
    """Print where the script failed, from its own first line on."""
    import traceback

    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith("<frozen importlib"):
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace)


def read_arguments(source: bytes) -> Any:
    """Read the arguments of this call: one JSON value."""
    if source == b"stdin":
        text = read_input().decode() or "{}"
    elif source == b"variable":
        text = os.environ["TOOL_ARGS"]
    else:
        with open(os.environ["TOOL_ARGS_FILE"], encoding="utf-8") as file:
            text = file.read()
    return decode(text)[0]


def read_input() -> bytes:
    """Read standard input to its end, without touching `sys.stdin`."""
    pieces, size = [], 1 << 11  # a larger buffer would cost memory even when little arrives
    while piece := os.read(0, size):
        pieces.append(piece)
        size = 1 << 16  # as much as a pipe holds, pipe(7)
    return b"".join(pieces)


def load(script: str) -> Any:
    spec = SPECS.get(script)
    if spec is None or spec.name in sys.modules:
        spec = spec_of(script)
    module: Any = type(sys)(spec.name)
    module.__file__ = script
    module.__spec__ = spec
    module.__loader__ = spec.loader
    sys.modules[spec.name] = module
    code = COMPILED.get(script) if COMPILED else None
    if code is None:
        module.__loader__.exec_module(module)
    else:
        exec(code, module.__dict__)  # noqa: S102 - the script itself, already compiled
    return module


def spec_of(script: str) -> ModuleSpec:
    name = os.path.splitext(os.path.basename(script))[0]
    package = package_of(script, os.environ.get("SKILL_BASE_DIR", ""))
    if package:
        name = f"{package}.{name}"
    elif name in sys.modules or name in getattr(sys, "stdlib_module_names", ()):
        name = f"_{name}"  # a script called json.py must not replace the module json
    return ModuleSpec(name, SourceFileLoader(name, script), origin=script)


def package_of(script: str, root: str) -> str:
    """Return the package of a script with relative imports, as `sitecustomize.py` does."""
    inside = script[len(root) + 1 :].split("/")[:-1] if script.startswith(f"{root}/") else []
    if not inside or not all(map(str.isidentifier, inside)):
        return ""
    with open(script, "rb") as source:
        return ".".join(inside) if b"from ." in source.read() else ""


def call_main(function: Any, arguments: Any) -> Any:
    """Pass arguments by name, converted to the types of the annotations."""
    hints = getattr(function, "__annotations__", {})
    if all(hint in PLAIN for name, hint in hints.items() if name != "return"):
        return function(**arguments)
    import inspect
    import typing

    try:
        hints = typing.get_type_hints(function)
    except Exception:
        hints = {}
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name in arguments:
            value = convert(arguments[name], hints.get(name))
            if parameter.kind is parameter.POSITIONAL_ONLY:
                positional.append(value)
            else:
                named[name] = value
    return function(*positional, **named)


def convert(value: Any, hint: Any) -> Any:
    """Convert text to a path or an enum member, also for `Path | None`."""
    import enum
    import pathlib
    import typing

    for kind in typing.get_args(hint) or (hint,):
        if isinstance(kind, type) and issubclass(kind, (pathlib.PurePath, enum.Enum)):
            return value if value is None else kind(value)
    return value


def wait_for(value: Any) -> Any:
    import asyncio

    async def wait() -> Any:
        return await value

    return asyncio.run(wait())


def finish(answer: int, text: str) -> None:
    data = text.encode(errors="replace")
    while data:
        data = data[os.write(answer, data) :]


if __name__ == "__main__" and main():
    sys.exit(1)
