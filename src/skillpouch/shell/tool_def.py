"""A command of a script: what it is called and takes, and what its callback is given."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Protocol, Self

from skillpouch.signatures.signature import JsonSchema
from skillpouch.tools import Effect


@dataclass(frozen=True, slots=True)
class ToolDef:
    """What a model is told about a command, and the schema that its flags are read by.

    `effects` say what a call does to the world; `examples` are whole command lines.
    """

    name: str
    description: str
    _: KW_ONLY
    input_schema: JsonSchema = field(default_factory=dict)
    output_schema: JsonSchema | None = None
    effects: tuple[Effect, ...] = ("execute",)
    examples: tuple[str, ...] = ()

    def with_schema(self, schema: JsonSchema) -> Self:
        # Not `replace`, which takes three times as long: there may be thousands.
        return type(self)(
            self.name,
            self.description,
            input_schema=dict(schema),  # a host may use one of its own for several tools
            output_schema=self.output_schema,
            effects=self.effects,
            examples=self.examples,
        )

    def with_output_schema(self, schema: JsonSchema) -> Self:
        return replace(self, output_schema=schema)

    def with_effects(self, *effects: Effect) -> Self:
        return replace(self, effects=effects)

    def with_examples(self, *examples: str) -> Self:
        return replace(self, examples=examples)


@dataclass(frozen=True, slots=True)
class ToolArgs:
    """What a callback is given: typed parameters, and the text piped into the command.

    Each `param_…` gives None for a parameter that is absent or of another type.
    """

    params: Mapping[str, Any] = field(default_factory=dict)
    stdin: str | None = None

    def param_str(self, key: str) -> str | None:
        value = self.params.get(key)
        return value if isinstance(value, str) else None

    def param_i64(self, key: str) -> int | None:
        value = self.params.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def param_f64(self, key: str) -> float | None:
        value = self.params.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        try:
            return float(value)
        except OverflowError:
            return None

    def param_bool(self, key: str) -> bool | None:
        value = self.params.get(key)
        return value if isinstance(value, bool) else None


class ToolCallback(Protocol):
    """What a command does: it gets ToolArgs, may be async, and what it returns is printed."""

    def __call__(self, args: ToolArgs, /) -> Any: ...
