"""Starts a search in its own process: makes its folder importable without Skillpouch."""

import json
import sys
import types


def _import_only_this_folder() -> None:
    here = __file__.rpartition("/")[0]
    packages = (
        ("skillpouch", ""),
        ("skillpouch.builtins.workspace", ""),
        ("skillpouch.builtins.workspace.search", here),
    )
    for name, folder in packages:
        package = types.ModuleType(name)
        package.__path__ = [folder] if folder else []
        sys.modules[name] = package


if __name__ == "__main__":
    _import_only_this_folder()
    from skillpouch.builtins.workspace.search.expressions import ExpressionError
    from skillpouch.builtins.workspace.search.searching import Search

    try:
        Search(**json.load(sys.stdin)).run(sys.stdout)
    except ExpressionError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)
