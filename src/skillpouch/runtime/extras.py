"""The optional packages: which of them are installed, and how to install those that are not."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec

from skillpouch.errors import MissingExtraError

_DISTRIBUTION = "skillpouch"
# As the metadata of a wheel has it: `mcp<3,>=2; extra == 'mcp'`, with parentheses in older ones.
_REQUIREMENT = re.compile(
    r"(?P<name>[\w.-]+)\s*(?P<options>\[[^\]]*\])?\s*\(?(?P<versions>[^;()]*)\)?\s*;(?P<marker>.*)"
)


@dataclass(frozen=True, slots=True)
class Extra:
    """What an extra is for, and the module name of each of its packages."""

    purpose: str
    modules: Mapping[str, str]


# Those of pyproject.toml that Skillpouch itself imports.
EXTRAS: Mapping[str, Extra] = {
    "langchain": Extra("LangChain tools", {"langchain-core": "langchain_core"}),
    "langchain-agents": Extra("SkillpouchMiddleware", {"langchain": "langchain"}),
    "pydantic-ai": Extra("Pydantic AI", {"pydantic-ai-slim": "pydantic_ai"}),
    "agents": Extra("the OpenAI Agents SDK", {"openai-agents": "agents"}),
    "mcp": Extra("MCP", {"mcp": "mcp"}),
    "grpc": Extra(
        "the gRPC server",
        {
            "grpcio": "grpc",
            "protobuf": "google.protobuf",
            "grpcio-health-checking": "grpc_health",
            "grpcio-reflection": "grpc_reflection",
            "googleapis-common-protos": "google.rpc.status_pb2",
        },
    ),
    "otel": Extra("OpenTelemetry spans", {"opentelemetry-api": "opentelemetry.trace"}),
    "watch": Extra("watching without polling", {"watchfiles": "watchfiles"}),
    "bash": Extra("bash scripts", {"bashkit": "bashkit"}),
}


def require_extra(name: str, *, instead: str = "") -> None:
    """Raise MissingExtraError unless every package of an extra can be imported.

    `instead` tells the caller what works without the extra.
    """
    missing = _missing(name)
    if missing:
        versions = _versions(name)
        requirements = [f"{package}{versions.get(package, '')}" for package in missing]
        raise MissingExtraError(name, requirements, purpose=EXTRAS[name].purpose, instead=instead)


def has_extra(name: str) -> bool:
    """Tell whether every package of an extra can be imported."""
    return not _missing(name)


def _missing(name: str) -> list[str]:
    modules = EXTRAS[name].modules
    return [package for package, module in modules.items() if not _is_importable(module)]


def _is_importable(module: str) -> bool:
    try:
        found = find_spec(module)
    # The package around it is missing, or `sys.modules` holds a module without a spec.
    except (ImportError, ValueError):
        return False
    # A folder of that name without code, such as one in the current folder, has no origin.
    return found is not None and found.origin is not None


def _versions(extra: str) -> dict[str, str]:
    """Return the version requirement of each package, from the metadata of Skillpouch."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        lines = requires(_DISTRIBUTION) or ()
    except PackageNotFoundError:  # not installed: a source folder on the path
        return {}
    marker = re.compile(rf"""\bextra\s*==\s*(['"]){re.escape(extra)}\1""")
    found = (_REQUIREMENT.match(line) for line in lines)
    return {
        re.sub(r"[-_.]+", "-", each["name"]).lower(): _ordered(each["versions"])
        for each in found
        if each is not None and marker.search(each["marker"])
    }


def _ordered(versions: str) -> str:
    """Return the lower bound first, as people write it; a wheel sorts `<3` before `>=2`."""
    return ",".join(sorted((part.strip() for part in versions.split(",")), reverse=True))
