"""Chooses how to install what a script needs: which interpreter, which installer."""

import os
import sys
from pathlib import Path

from skillpouch.backends.interpreters import find_program
from skillpouch.errors import InterpreterMissingError
from skillpouch.provision.packages.errors import InstallError
from skillpouch.provision.packages.needs import Needs, NodeNeeds
from skillpouch.provision.packages.node_recipe import NodeRecipe, find_npm
from skillpouch.provision.packages.python_recipe import PythonRecipe
from skillpouch.provision.packages.python_versions import satisfies
from skillpouch.provision.packages.pythons import Sandbox, find_python, own_python
from skillpouch.provision.packages.recipe import Recipe

# Where pip puts the programs of packages that are installed beside Skillpouch.
_PROGRAMS = Path(sys.executable).parent


def find_uv() -> str:
    """Return the path of uv: on the search path, or beside the running Python; "" without one."""
    beside = _PROGRAMS / "uv"
    return find_program("uv") or (str(beside.resolve()) if os.access(beside, os.X_OK) else "")


def is_met(needs: Needs) -> bool:
    """Tell whether a script needs nothing but the Python that Skillpouch runs on.

    Packages are never met by what Skillpouch's own environment happens to hold: a result must not
    depend on what else is installed there, nor change when that is upgraded.
    """
    if isinstance(needs, NodeNeeds) or needs.requirements:
        return False
    return satisfies(own_python().version, needs.requires_python)


def missing_installer(needs: Needs) -> str:
    """Say what must be installed before the packages can be, "" when all is there."""
    if isinstance(needs, NodeNeeds):
        return "" if find_npm() else "npm is not installed"
    fits = satisfies(own_python().version, needs.requires_python)
    return "" if fits or find_uv() else f"Python {needs.requires_python} is not installed"


def describe(needs: Needs) -> str:
    """Say in one line what a script needs."""
    return f"{', '.join(needs.names)}: installed on first call"


async def recipe_for(needs: Needs, skill: str, sandbox: Sandbox, workspace: Path | None) -> Recipe:
    """Return how the needs are installed here.

    Raises:
        InstallError: nothing here can install them.
    """
    if isinstance(needs, NodeNeeds):
        return _node_recipe(needs, skill, workspace)
    uv = _trusted(find_uv(), workspace)
    python = await find_python(needs.requires_python, sandbox)
    if python is None or (python != own_python() and not uv):
        found = f"Python {python.text} does, and uv is needed to use it" if python else "none does"
        raise InstallError(
            skill,
            needs.names,
            f"it needs Python {needs.requires_python}, Skillpouch runs on {own_python().text};"
            f" {found}",
            hint="install uv" if python else "install such a Python, and uv",
        )
    return PythonRecipe(needs=needs, python=python, uv=uv)


def _node_recipe(needs: NodeNeeds, skill: str, workspace: Path | None) -> NodeRecipe:
    node = _trusted(find_program("node"), workspace)
    npm = _trusted(find_npm(), workspace)
    if not node:
        raise InterpreterMissingError(["node"], "nodejs")
    if not npm:
        hint = "install it: apt install npm; or ship node_modules in the skill"
        raise InstallError(skill, needs.names, "npm is not installed", hint=hint)
    return NodeRecipe(needs=needs, node=node, npm=npm)


def _trusted(program: str, workspace: Path | None) -> str:
    """Return the program, "" when a tool could have put it there."""
    return "" if workspace and Path(program).is_relative_to(workspace) else program
