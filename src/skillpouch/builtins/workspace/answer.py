"""What one of Skillpouch's own tools gives: text for a model, a value and data for a program."""

from dataclasses import dataclass
from typing import Any

from skillpouch.results import Attachment, ChangedFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """`data` is what a pipe gets; a tool that has no such text gives its value there, as JSON."""

    text: str
    structured: Any = None
    data: str | None = None
    attachments: tuple[Attachment, ...] = ()
    files: tuple[ChangedFile, ...] = ()
    truncated: bool = False
