"""What tools without a schema of their own take, under the names that earlier libraries gave it."""

from typing import Any

from pydantic import BaseModel, Field


class SkillInput(BaseModel):
    """What a skill is to work on."""

    arguments: str = Field(default="", description="Arguments to pass to the skill")


class RawJsonInput(BaseModel):
    """Any JSON, for a script that does not say what it takes."""

    data: Any = Field(
        default=None,
        description="Free-form JSON data passed to the script: an object, a list, text …",
    )
