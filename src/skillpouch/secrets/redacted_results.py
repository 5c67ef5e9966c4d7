"""A result without the secrets that its call was given."""

from dataclasses import replace

from skillpouch.results import HttpAnswer, ToolResult
from skillpouch.secrets.redaction import Redactor


def redact_result(result: ToolResult, redactor: Redactor) -> ToolResult:
    """Return the result as it may be shown: in text, in the value, in names of files."""
    if redactor.is_idle:
        return result
    return replace(
        result,
        content=redactor.text(result.content),
        structured=redactor.value(result.structured),
        stdout=redactor.text(result.stdout),
        stderr=redactor.text(result.stderr),
        files=tuple(replace(file, path=redactor.text(file.path)) for file in result.files),
        run_later=tuple(map(redactor.text, result.run_later)),
        http=result.http and _answer(result.http, redactor),
    )


def _answer(http: HttpAnswer, redactor: Redactor) -> HttpAnswer:
    headers = {name: redactor.text(value) for name, value in http.headers.items()}
    return replace(http, url=redactor.text(http.url), headers=headers)
