"""Finds Python scripts named like a module of the standard library."""

import sys

from skillpouch.problems import Problem


def find_shadowed_modules(path: str, name: str) -> list[Problem]:
    """Check the Python file at `path`, which its neighbours import as the module `name`."""
    if name not in sys.stdlib_module_names:
        return []
    # The interpreter looks for the modules it has built in before it looks at any folder.
    if name in sys.builtin_module_names:
        consequence = f"no script can import it: `import {name}` always finds the built-in module"
    else:
        consequence = (
            f"`import {name}` in this folder finds this file, "
            "and every library that needs the real module breaks"
        )
    return [
        Problem(
            path=path,
            code="shadows-stdlib",
            severity="warning",
            message=f"named like the standard library module '{name}': {consequence}; rename it",
        )
    ]
