"""Filling templates for a call: what cannot be filled is said in the words of the caller."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from skillpouch.calls import ToolCall
from skillpouch.errors import InvalidArgumentsError
from skillpouch.templates import FillError
from skillpouch.trust.errors import SecretUnsetError

T = TypeVar("T")


def fill_for(call: ToolCall, fill: Callable[[Mapping[str, Any], Mapping[str, str]], T]) -> T:
    """Fill one template, `fill_for(call, template.fill)`, with the arguments and given secrets."""
    try:
        return fill(call.arguments, call.given.secrets)
    except FillError as error:
        if error.is_variable and error.name not in call.given.secrets:
            raise SecretUnsetError(call.tool.skill, [error.name]) from None
        raise InvalidArgumentsError(call.tool.id, [str(error)], usage=error.hint) from None
