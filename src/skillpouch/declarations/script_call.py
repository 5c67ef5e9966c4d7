"""How a declared tool calls its script: one convention, chosen from declaration and code."""

from dataclasses import replace

from skillpouch.declarations.declared import Declared
from skillpouch.signatures.argv import Argument, ArgvPlan
from skillpouch.signatures.signature import Interface, JsonSchema, Signature

UNTYPED: JsonSchema = {
    "type": "object",
    "properties": {
        "data": {"description": "Any JSON, passed to the script on standard input"},
    },
}
_NO_PARAMETERS: JsonSchema = {"type": "object", "properties": {}}


def call_of(declared: Declared, signature: Signature) -> Interface:
    """Return the interface of a declared script: its own schema over what the code can take."""
    read = signature.interface
    if declared.input_schema is None:
        return _undeclared(declared, read)
    interface = replace(read, input_schema=declared.input_schema)
    if read.convention == "handler":
        return interface
    names = set(declared.input_schema.get("properties", {}))
    if names and _takes(read, names):
        return interface
    if declared.source == "manifest":
        plan = tuple(Argument(name=name) for name in declared.input_schema.get("properties", {}))
        return replace(interface, convention="argv", plan=plan)
    return replace(interface, convention="stdin", plan=None)


def _undeclared(declared: Declared, read: Interface) -> Interface:
    if read.input_schema is not None or declared.source == "manifest":
        return read
    # In tools.json, leaving out `parameters` says that there are none.
    return replace(read, input_schema=_NO_PARAMETERS)


def _takes(read: Interface, names: set[str]) -> bool:
    if read.convention == "main":
        return names <= set((read.input_schema or {}).get("properties", {}))
    return read.convention == "argv" and names <= _planned(read.plan or ())


def _planned(plan: ArgvPlan) -> set[str]:
    return {part.name for part in plan if isinstance(part, Argument)}
