"""Packages that were granted besides those that a skill declares."""

import json
from typing import Any

import pytest

from kitbag.environments.errors import RequirementRefusedError
from kitbag.environments.extra_packages import with_packages
from kitbag.environments.needs import NodeNeeds, PythonNeeds
from kitbag.environments.requirement import parse_requirement
from kitbag.tools import Script

PYTHON = Script(file="/s/x.py", language="python", convention="stdin")
NODE = Script(file="/s/x.mjs", language="javascript", convention="stdin")
SHELL = Script(file="/s/x.sh", language="shell", convention="stdin")
DECLARED = PythonNeeds(declared_in="requirements.txt", requirements=(parse_requirement("numpy"),))


def test_a_python_script_gets_the_granted_python_packages() -> None:
    found = with_packages(None, ["quokka==1.0", "npm:ws", "adder"], PYTHON)

    wanted = tuple(map(parse_requirement, ("adder", "quokka==1.0")))
    assert found == PythonNeeds(declared_in="its grant", requirements=wanted)


def test_granted_packages_come_beside_the_declared_ones() -> None:
    found = with_packages(DECLARED, ["quokka"], PYTHON)

    wanted = tuple(map(parse_requirement, ("numpy", "quokka")))
    assert found == PythonNeeds(declared_in="requirements.txt", requirements=wanted)


@pytest.mark.parametrize("script", [PYTHON, NODE, SHELL])
def test_without_packages_of_its_language_nothing_changes(script: Script) -> None:
    other = ["npm:ws"] if script is PYTHON else ["quokka"]

    assert with_packages(DECLARED, [], script) is DECLARED
    assert with_packages(None, other, script) is None


def test_a_node_script_gets_the_granted_packages_of_npm() -> None:
    found = with_packages(None, ["npm:ws", "npm:@scope/x@1.2.3", "quokka"], NODE)

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
        with_packages(None, [package], PYTHON)
