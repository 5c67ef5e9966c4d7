"""Finds Python scripts named like a module of the standard library."""

import sys
from pathlib import PurePosixPath

from kitbag.problems import Problem


def find_shadowed_modules(path: str, name: str) -> list[Problem]:
    """Check one file, `name` being its path below `scripts/`, such as `http.py`."""
    module = _module_name(PurePosixPath(name))
    if module not in sys.stdlib_module_names:
        return []
    # The interpreter looks for the modules it has built in before it looks at any folder.
    if module in sys.builtin_module_names:
        consequence = f"no script can import it: `import {module}` always finds the built-in module"
    else:
        consequence = (
            f"`import {module}` in this folder finds this file, "
            "and every library that needs the real module breaks"
        )
    return [
        Problem(
            path=path,
            code="shadows-stdlib",
            severity="warning",
            message=f"'{name}' has the name of the standard library module '{module}': "
            f"{consequence}; rename it",
        )
    ]


def _module_name(script: PurePosixPath) -> str:
    if script.suffix != ".py":
        return ""
    return script.parent.name if script.stem == "__init__" else script.stem
