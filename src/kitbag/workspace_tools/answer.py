"""What one of Kitbag's own tools gives: text for a model, a value for a program."""

from dataclasses import dataclass
from typing import Any

from kitbag.results import Attachment, ChangedFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    text: str
    structured: Any = None
    attachments: tuple[Attachment, ...] = ()
    files: tuple[ChangedFile, ...] = ()
    truncated: bool = False
