"""What a model is given: results that can be stored, images, and errors as text."""

import base64
from dataclasses import replace
from typing import Any

from skillpouch.errors import SkillInvocationError, SkillpouchError
from skillpouch.results import Attachment, ToolResult


def refusal_text(error: SkillpouchError) -> str:
    """Return why a call was not made, and the next step."""
    return f"{error}\nhint: {error.advice}" if error.advice else str(error)


def failure_of(result: ToolResult) -> SkillInvocationError:
    """Return what the failure of a tool that ran is to a program."""
    try:
        result.content_or_raise()
    except SkillInvocationError as error:
        return error
    raise AssertionError("a result that is no failure")


def failure_text(result: ToolResult) -> str:
    """Return how a tool failed, and all that it said."""
    head = str(failure_of(result)).partition("\n")[0]
    ended = f"exit code {result.exit_code}"  # the head says so already
    said = [line for line in result.content.split("\n") if line != ended]
    return "\n".join([head, *said]).rstrip()


def base64_text(image: Attachment) -> str:
    """Return the bytes of an image as text."""
    return base64.b64encode(image.data).decode()


def data_url(image: Attachment) -> str:
    """Return an image as an address that holds all of it."""
    return f"data:{image.type};base64,{base64_text(image)}"


# What MessagePack holds, in which checkpoints are written.
_LEAST, _MOST = -(2**63), 2**64 - 1


def storable(result: ToolResult) -> ToolResult:
    """Return the same result with plain mappings, and integers beyond 64 bits as text."""
    http = result.http and replace(result.http, headers=dict(result.http.headers))
    return replace(
        result,
        protections=dict(result.protections),
        structured=_storable(result.structured),
        http=http,
    )


def _storable(value: Any) -> Any:
    match value:
        case dict():
            return {key: _storable(each) for key, each in value.items()}
        case list():
            return [_storable(each) for each in value]
        case int() if not _LEAST <= value <= _MOST:
            return str(value)
        case _:
            return value
