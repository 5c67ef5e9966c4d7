"""Errors of Skillpouch that are ToolExceptions, too: for who catches either."""

from typing import Any

from langchain_core.tools import ToolException

from skillpouch.errors import SkillpouchError
from skillpouch.integrations.telling import failure_of, failure_text, refusal_text
from skillpouch.results import ToolResult


def refusal(error: SkillpouchError) -> ToolException:
    """Return an error of a wrong or refused call as a ToolException of the same type."""
    return _twin(error, refusal_text(error))


def failure(result: ToolResult) -> ToolException:
    """Return what the failure of a tool that ran is to a caller; it says all that the tool said."""
    return _twin(failure_of(result), failure_text(result))


def _twin(error: SkillpouchError, text: str) -> ToolException:
    kind = type(error)
    return _restore(kind, text, error.__dict__).with_traceback(error.__traceback__)


def _restore(kind: type[SkillpouchError], text: str, facts: dict[str, Any]) -> ToolException:
    both = _KNOWN.get(kind) or _KNOWN.setdefault(kind, _both(kind))
    twin: ToolException = both.__new__(both, text)
    twin.__dict__.update(facts)
    return twin


_KNOWN: dict[type[SkillpouchError], Any] = {}


def _both(kind: type[SkillpouchError]) -> Any:
    def reduce(twin: Exception) -> Any:
        # Made here and found nowhere: to travel, it says how it was made.
        return _restore, (kind, str(twin), twin.__dict__)

    names = {"__module__": kind.__module__, "__doc__": kind.__doc__, "__reduce__": reduce}
    return type(kind.__name__, (kind, ToolException), names)
