"""What a model is told of a call that went wrong: all that helps to do better."""

from skillpouch.errors import SkillInvocationError, SkillpouchError
from skillpouch.results import ToolResult


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
