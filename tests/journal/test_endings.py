import asyncio

import pytest

from skillpouch.errors import CallDeniedError, CommandStartError
from skillpouch.journal.recording import ending_of_error, ending_of_result
from skillpouch.journal.records import CallEnd
from skillpouch.results import ChangedFile, Conflict, FileChange, ToolResult
from skillpouch.secrets.redaction import Redactor, redact_result

pytestmark = pytest.mark.slow

REDACTOR = Redactor({"KEY": "hunter2hunter2"})


def test_the_end_of_a_call_that_ran_is_what_its_result_says() -> None:
    result = ToolResult(
        tool="s.t",
        outcome="failed",
        content="c",
        stdout="é",
        stderr="why",
        exit_code=3,
        duration_ms=1.5,
        protections={"fs": "landlock4"},
        code="c1",
        writes="staged",
        changes=(FileChange(path="a", change="created"),),
        call_id="7",
    )

    assert ending_of_result(result) == CallEnd(
        outcome="failed",
        content="c",
        stderr="why",
        exit_code=3,
        output_bytes=5,
        duration_ms=1.5,
        protections={"fs": "landlock4"},
        code="c1",
        writes="staged",
        changes=result.changes,
        call_id="7",
    )
    assert ending_of_result(result, output_bytes=9).output_bytes == 9


@pytest.mark.parametrize(
    ("error", "outcome", "code"),
    [
        (CallDeniedError("no"), "denied", "denied"),
        (CommandStartError("node", "no"), "not_started", "cannot_start"),
        (asyncio.CancelledError(), "cancelled", "CancelledError"),
        (KeyboardInterrupt(), "cancelled", "KeyboardInterrupt"),
        (OSError("broken"), "not_started", "OSError"),
    ],
)
def test_a_call_without_a_result_has_an_end_too(
    error: BaseException, outcome: str, code: str
) -> None:
    ended = ending_of_error(error, REDACTOR)

    assert (ended.outcome, ended.code) == (outcome, code)


@pytest.mark.promise("sec-2")
def test_an_error_on_record_has_no_secret() -> None:
    ended = ending_of_error(CallDeniedError("bad key hunter2hunter2"), REDACTOR)

    assert ended.content == "bad key [redacted KEY]"


@pytest.mark.promise("sec-2")
def test_no_part_of_a_result_has_a_secret() -> None:
    secret, mark = "hunter2hunter2", "[redacted KEY]"

    def result(text: str) -> ToolResult:
        return ToolResult(
            tool="s.t",
            outcome="ok",
            content=text,
            structured={"a": [text]},
            stdout=text,
            stderr=text,
            files=(ChangedFile(path=text, type="t", size=1),),
            changes=(FileChange(path=f"in/{text}", change="renamed", old_path=text),),
            conflicts=(Conflict(path=text, reason="it was changed"),),
        )

    assert redact_result(result(secret), REDACTOR) == result(mark)
