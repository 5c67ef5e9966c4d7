"""Of what a script declares and what was given to it: what may be installed."""

import json
from typing import Any

import pytest

from skillpouch.declarations.packages.declared_files import RequirementRefusedError
from skillpouch.declarations.packages.needs import NodeNeeds, PythonNeeds
from skillpouch.declarations.packages.requirements import parse_requirement
from skillpouch.tools import Script
from skillpouch.trust.errors import UngrantedError
from skillpouch.trust.granted_packages import given_packages

PYTHON = Script(file="/s/x.py", language="python", convention="stdin")
NODE = Script(file="/s/x.mjs", language="javascript", convention="stdin")
SHELL = Script(file="/s/x.sh", language="shell", convention="stdin")
DECLARED = PythonNeeds(declared_in="requirements.txt", requirements=(parse_requirement("numpy"),))


def test_a_python_script_gets_the_granted_python_packages() -> None:
    found = given_packages(None, ["quokka==1.0", "npm:ws", "adder"], PYTHON, "demo")

    wanted = tuple(map(parse_requirement, ("adder", "quokka==1.0")))
    assert found == PythonNeeds(declared_in="its grant", requirements=wanted)


def test_granted_packages_come_beside_the_declared_ones() -> None:
    found = given_packages(DECLARED, ["quokka", "numpy"], PYTHON, "demo")

    wanted = tuple(map(parse_requirement, ("numpy", "quokka")))
    assert found == PythonNeeds(declared_in="requirements.txt", requirements=wanted)


@pytest.mark.parametrize("script", [PYTHON, NODE, SHELL])
def test_without_packages_of_its_language_nothing_changes(script: Script) -> None:
    other = ["npm:ws"] if script is PYTHON else ["quokka"]

    assert given_packages(DECLARED, ["numpy"], script, "demo") is DECLARED
    assert given_packages(None, other, script, "demo") is None


def test_a_node_script_gets_the_granted_packages_of_npm() -> None:
    found = given_packages(None, ["npm:ws", "npm:@scope/x@1.2.3", "quokka"], NODE, "demo")

    assert isinstance(found, NodeNeeds)
    manifest = json.loads(found.manifest.text)
    assert manifest["dependencies"] == {"@scope/x": "1.2.3", "ws": "*"}
    assert found.manifest.packages == ("@scope/x@1.2.3", "ws")


@pytest.mark.parametrize(
    "package", ["quokka @ https://evil.example/q.whl", "--index-url=x", "../q", "-r x", ""]
)
@pytest.mark.promise("dep-1")
def test_a_granted_package_is_a_name_and_a_version_and_nothing_else(package: Any) -> None:
    with pytest.raises(RequirementRefusedError):
        given_packages(None, [package], PYTHON, "demo")


def test_a_version_that_was_granted_narrows_what_is_declared() -> None:
    found = given_packages(DECLARED, ["numpy==2.1"], PYTHON, "demo")

    wanted = tuple(map(parse_requirement, ("numpy", "numpy==2.1")))
    assert found == PythonNeeds(declared_in="requirements.txt", requirements=wanted)


@pytest.mark.parametrize("given", [[], ["numpy2"], ["npm:numpy"]])
@pytest.mark.promise("call-1")
def test_what_is_declared_and_not_given_is_refused(given: list[str]) -> None:
    with pytest.raises(UngrantedError, match="package numpy"):
        given_packages(DECLARED, given, PYTHON, "demo")
