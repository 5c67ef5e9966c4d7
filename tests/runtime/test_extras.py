"""An optional package that is missing is named with its version, as pyproject.toml has it."""

import importlib
import pickle
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from skillpouch.errors import MissingExtraError
from skillpouch.runtime.extras import EXTRAS, has_extra
from skillpouch.servers.faults import fault_of

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
DECLARED: dict[str, list[str]] = PROJECT["optional-dependencies"]
MCP = DECLARED["mcp"][0]

# What a user does, the package that is not there, and the extra that has it.
USES = [
    ("import skillpouch.integrations.langchain", "langchain_core", "langchain"),
    (
        "from skillpouch.integrations.langchain import SkillpouchMiddleware",
        "langchain",
        "langchain-agents",
    ),
    ("import skillpouch.integrations.pydantic_ai", "pydantic_ai", "pydantic-ai"),
    ("import skillpouch.integrations.agents", "agents", "agents"),
    ("from skillpouch.servers.mcp import McpServer", "mcp", "mcp"),
    ("from skillpouch.mcp_client import McpServers", "mcp", "mcp"),
    (
        "from skillpouch import ScriptedTool; ScriptedTool.builder('api').build()",
        "bashkit",
        "bash",
    ),
    (
        "from skillpouch import ScriptedTool; ScriptedTool.builder('a', engine='inproc').build()",
        "bashkit",
        "bash",
    ),
]


def run_without(module: str, program: str) -> subprocess.CompletedProcess[str]:
    blocked = f"import sys; sys.modules[{module!r}] = None\n{program}"
    return subprocess.run(
        [sys.executable, "-c", blocked], capture_output=True, check=False, text=True
    )


@pytest.mark.slow
@pytest.mark.parametrize(("use", "module", "extra"), USES, ids=[use for use, _, _ in USES])
def test_what_is_missing_is_named_with_its_version(use: str, module: str, extra: str) -> None:
    ran = run_without(module, use)

    (requirement,) = DECLARED[extra]
    assert ran.stderr.splitlines()[-1] == f"hint: pip install '{requirement}'"
    assert "MissingExtraError: " in ran.stderr.splitlines()[-2]


def test_only_what_is_missing_is_named() -> None:
    ran = run_without("grpc_health", "from skillpouch.servers.grpc import GrpcServer")

    message, hint = ran.stderr.splitlines()[-2:]
    assert message.endswith(
        ": grpcio-health-checking is not installed; it is needed for the gRPC server"
    )
    assert hint == "hint: pip install 'grpcio-health-checking>=1.71.2'"


def test_everything_that_is_missing_is_named_at_once() -> None:
    program = "sys.modules['grpc'] = None\nfrom skillpouch.servers.grpc import GrpcServer"

    ran = run_without("google", program)

    packages = ("grpcio", "protobuf", "googleapis-common-protos")
    declared = [each for each in DECLARED["grpc"] if each.partition(">")[0] in packages]
    message, hint = ran.stderr.splitlines()[-2:]
    assert message.endswith(
        f": {', '.join(packages)} are not installed; they are needed for the gRPC server"
    )
    assert hint == "hint: pip install " + " ".join(f"'{each}'" for each in declared)


def test_the_command_line_says_it_once_and_that_nothing_was_started() -> None:
    program = "from skillpouch.cli import main\nsys.argv = ['skillpouch', 'serve', 'mcp']\nmain()"

    ran = run_without("mcp", program)

    assert ran.stderr == (
        f"error: mcp is not installed; it is needed for MCP\nhint: pip install '{MCP}'\n"
    )
    assert ran.returncode == 4


def test_without_metadata_of_our_own_the_name_alone_is_said() -> None:
    # Python -S knows no installed packages, and a source folder on the path has no metadata.
    source = Path(__file__).parents[2] / "src"
    program = (
        f"import sys; sys.path.insert(0, {str(source)!r})\n"
        "from skillpouch.runtime.extras import require_extra\nrequire_extra('mcp')"
    )

    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, check=False, text=True
    )

    assert ran.stderr.splitlines()[-1] == "hint: pip install mcp"


def test_a_folder_that_only_has_the_name_of_a_package_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mcp").mkdir()
    for name in [name for name in sys.modules if name.partition(".")[0] == "mcp"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    importlib.invalidate_caches()

    assert not has_extra("mcp")


def test_the_error_has_facts_and_reaches_other_processes() -> None:
    error = MissingExtraError("mcp", ["mcp>=2,<3"], purpose="MCP", instead="do without")

    again = pickle.loads(pickle.dumps(error))

    assert isinstance(again, MissingExtraError)
    assert isinstance(error, ImportError)
    assert (again.code, again.extra, again.missing) == ("missing_extra", "mcp", ("mcp>=2,<3",))
    assert again.hint == "pip install 'mcp>=2,<3', or do without"
    assert again.__notes__ == [f"hint: {again.hint}"]
    assert fault_of(again) == "not_started"


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_packages_of_an_extra_are_those_of_the_project(extra: str) -> None:
    declared = {each.partition(">")[0] for each in DECLARED[extra]}

    assert set(EXTRAS[extra].modules) == declared
    assert has_extra(extra)  # the environment of the tests has them all


def test_every_extra_is_checked_or_never_imported() -> None:
    # openai and anthropic bring clients for users; the others are for those who build Skillpouch.
    others = {"openai", "anthropic", "all", "dev", "docs", "bench"}

    assert set(DECLARED) - others == set(EXTRAS)
