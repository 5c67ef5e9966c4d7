"""How a result, or the error that came instead of one, is written down."""

from skillpouch.errors import CallDeniedError, SkillpouchError
from skillpouch.journal.records import Finished
from skillpouch.results import ToolResult
from skillpouch.secrets.redaction import Redactor


def ending_of_result(result: ToolResult, *, output_bytes: int | None = None) -> Finished:
    """Return the end of a call that ran; its result has no secrets any more.

    `output_bytes` is how much it wrote, where that is known better than from what was kept.
    """
    if output_bytes is None:
        kept = result.stdout + result.stderr
        output_bytes = len(kept.encode(errors="replace"))
    return Finished(
        outcome=result.outcome,
        content=result.content,
        stderr=result.stderr,
        exit_code=result.exit_code,
        output_bytes=output_bytes,
        duration_ms=result.duration_ms,
        protections=result.protections,
        code=result.code,
    )


def ending_of_error(
    error: BaseException, redactor: Redactor, *, duration_ms: float = 0.0
) -> Finished:
    """Return the end of a call that gave no result: denied, not started, or cancelled."""
    from asyncio import CancelledError

    if isinstance(error, CallDeniedError):
        outcome = "denied"
    elif isinstance(error, CancelledError | KeyboardInterrupt | GeneratorExit):
        outcome = "cancelled"
    else:
        outcome = "not_started"
    return Finished(
        outcome=outcome,  # type: ignore[arg-type]  # one of the three above
        content=redactor.text(str(error)),
        duration_ms=duration_ms,
        code=error.code if isinstance(error, SkillpouchError) else type(error).__name__,
    )
