"""What is said of one of Skillpouch's own tools: its name, what it takes, what it may do."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from skillpouch.tools import BuiltIn, Effect, Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    name: str
    description: str
    parameters: Mapping[str, Mapping[str, Any]]
    required: tuple[str, ...] = ()
    effects: tuple[Effect, ...] = ("read",)
    timeout_ms: int = 30_000

    def tool(self, session: object) -> Tool:
        """Return the tool of one session."""
        return Tool(
            id=self.name,
            name=self.name,
            skill="",
            description=self.description,
            input_schema={
                "type": "object",
                "properties": {name: dict(facts) for name, facts in self.parameters.items()},
                "required": list(self.required),
                "additionalProperties": False,
            },
            runs=BuiltIn(name=self.name, session=session),
            effects=self.effects,
            timeout_ms=self.timeout_ms,
            declared_in="skillpouch",
            read_by="skillpouch",
        )


def text(description: str, **facts: Any) -> dict[str, Any]:
    """Describe a parameter that is text."""
    return {"type": "string", "description": description, **facts}


def number(description: str, *, minimum: int = 0, **facts: Any) -> dict[str, Any]:
    """Describe a parameter that is a whole number."""
    return {"type": "integer", "minimum": minimum, "description": description, **facts}


def switch(description: str) -> dict[str, Any]:
    """Describe a parameter that is on or off, and off by default."""
    return {"type": "boolean", "default": False, "description": description}
