"""A finished environment: what is in it, and the variables by which a script finds it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from skillpouch.provision.interpreters import homes_of
from skillpouch.provision.packages.node_recipe import MODULES
from skillpouch.provision.packages.python_recipe import VENV

_HOOK = Path(__file__).parents[2] / "backends" / "runners" / "find_packages.mjs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The packages of a script; read-only, and shared by all scripts with the same needs.

    `python` runs a Python script in place of Skillpouch's own interpreter; it executes code of the
    packages, so it must always be confined. `variables` are for the script, `programs` comes first
    on its PATH, and `visible` must be visible to it and executable (`Confinement.interpreters`).
    """

    folder: Path
    requirements: tuple[str, ...]
    python: str = ""
    node_modules: Path | None = None
    programs: Path | None = None
    variables: Mapping[str, str] = field(default_factory=dict, hash=False)
    visible: tuple[Path, ...] = ()

    @property
    def typescript(self) -> Path | None:
        """What Node imports first to run TypeScript: of the package tsx, if it is here."""
        loader = self.node_modules and self.node_modules / "tsx" / "dist" / "loader.mjs"
        return loader if loader and loader.is_file() else None


def environment_at(folder: Path, record: Mapping[str, Any]) -> Environment | None:
    """Return the environment in a folder, None when it is not whole."""
    requirements = tuple(map(str, record.get("requirements", ())))
    base = str(record.get("base", ""))
    if record.get("kind") == "python":
        programs = folder / VENV / "bin"
        python = programs / "python"
        visible = (folder, *homes_of(base))
        found = Environment(
            folder=folder,
            requirements=requirements,
            python=str(python),
            programs=programs,
            # So that a Python of another environment, which a script made and starts, has the
            # packages, too (preforked/startup/sitecustomize.py).
            variables=MappingProxyType({"SKILLPOUCH_PACKAGES": str(folder / VENV)}),
            visible=visible,
        )
        return found if os.access(python, os.X_OK) else None
    return _node_environment(folder, requirements)


def _node_environment(folder: Path, requirements: tuple[str, ...]) -> Environment | None:
    modules = folder / MODULES / "node_modules"
    # NODE_PATH serves require(), the hook serves import. Both are variables, so that child
    # processes of a script find the same packages.
    variables = {"NODE_PATH": str(modules), "NODE_OPTIONS": f"--import={_HOOK.as_uri()}"}
    found = Environment(
        folder=folder,
        requirements=requirements,
        node_modules=modules,
        programs=modules / ".bin",
        variables=MappingProxyType(variables),
        visible=(folder, _HOOK.parent),
    )
    return found if modules.is_dir() else None
