"""Starts a worker: sets its limits, makes its folder importable, serves until its host ends."""

import os
import resource
import sys
import types

_CPU_SECONDS = 3600  # a last resort: who gives orders keeps the time


def _import_only_these_folders(engine: str) -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    skillpouch = os.path.dirname(os.path.dirname(here))
    for name, folder in (
        ("skillpouch", ""),
        ("skillpouch.shell", ""),
        ("skillpouch.shell.worker", here),
        ("skillpouch.execution", ""),
        ("skillpouch.execution.zygote", os.path.join(skillpouch, "execution", "zygote")),
    ):
        package = types.ModuleType(name)
        package.__path__ = [folder] if folder else []
        sys.modules[name] = package
    sys.path.append(engine)


def _limit(which: int, value: int) -> None:
    _, hard = resource.getrlimit(which)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (value, value))


def _main() -> None:
    number, engine, memory_bytes = sys.argv[1:]
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_CPU, _CPU_SECONDS)
    if sys.platform == "linux":
        _limit(resource.RLIMIT_AS, int(memory_bytes))
    _import_only_these_folders(engine)
    from skillpouch.shell.worker.serve import serve

    serve(int(number), engine)


if __name__ == "__main__":
    try:
        _main()
    finally:
        os._exit(1)  # whatever went wrong: the threads of the engine are never waited for
