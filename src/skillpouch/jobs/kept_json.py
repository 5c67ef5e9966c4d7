"""Results, errors and questions of jobs as JSON: one process writes them, any other reads them."""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from skillpouch.errors import SkillpouchError
from skillpouch.jobs.job import JobFailedError
from skillpouch.needs import Need
from skillpouch.policy.approval import Answer, Question
from skillpouch.results import (
    Attachment,
    ChangedFile,
    Conflict,
    FileChange,
    HttpAnswer,
    ToolResult,
)

# ASCII only: text of a tool may contain lone surrogates, which no file can hold.
_write = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode


def result_to_json(result: ToolResult) -> str:
    """Write a result; fields that have their usual value are left out."""
    facts = {
        each.name: _plain(getattr(result, each.name))
        for each in fields(ToolResult)
        if _differs(result, each.name)
    }
    return _write({**facts, "tool": result.tool, "outcome": result.outcome})


_USUAL = ToolResult(tool="", outcome="ok")


def _differs(result: ToolResult, name: str) -> bool:
    return bool(getattr(result, name) != getattr(_USUAL, name))


def result_from_json(text: str) -> ToolResult:
    """Read what `result_to_json` wrote."""
    facts: dict[str, Any] = json.loads(text)
    known = {each.name for each in fields(ToolResult)}
    made = {name: _READERS.get(name, _same)(value) for name, value in facts.items()}
    return ToolResult(**{name: value for name, value in made.items() if name in known})


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    return value


def _same(value: Any) -> Any:
    return value


def _several(kind: type[Any]) -> Any:
    return lambda values: tuple(kind(**facts) for facts in values)


_READERS: dict[str, Any] = {
    "saved": lambda paths: tuple(map(Path, paths)),
    "files": _several(ChangedFile),
    "changes": _several(FileChange),
    "conflicts": _several(Conflict),
    "attachments": lambda values: tuple(
        Attachment(name=each["name"], type=each["type"], data=b64decode(each["data"]))
        for each in values
    ),
    "http": lambda facts: HttpAnswer(**facts),
    "timings": lambda laps: tuple((what, took) for what, took in laps),
    **dict.fromkeys(("run_later", "refused_hosts", "looked_up", "notes", "ended_as"), tuple),
}


def error_to_json(error: SkillpouchError) -> str:
    """Write an error: its class, code, message and hint, and those of its facts that are plain."""
    kind = type(error)
    facts = {name: _tagged(value) for name, value in vars(error).items() if _is_plain(value)}
    return _write(
        {
            "module": kind.__module__,
            "name": kind.__qualname__,
            "code": error.code,
            "message": str(error),
            "hint": error.hint,
            "facts": facts,
        }
    )


def error_from_json(text: str) -> SkillpouchError:
    """Return the error that `error_to_json` wrote, or one with the same code, message and hint."""
    told = json.loads(text)
    kind = _class_of(told["module"], told["name"])
    if kind is None or kind.code != told["code"]:
        return JobFailedError(told["code"], told["message"], hint=told["hint"])
    error = kind.__new__(kind, told["message"])
    error.args = (told["message"],)
    vars(error).update({name: _untagged(value) for name, value in told["facts"].items()})
    error.hint = told["hint"]
    return error


def _class_of(module: str, name: str) -> type[SkillpouchError] | None:
    if module.partition(".")[0] != "skillpouch":
        return None  # an error of another package: it may not be installed here
    try:
        found = getattr(import_module(module), name, None)
    except ImportError:
        return None
    is_ours = isinstance(found, type) and issubclass(found, SkillpouchError)
    return found if is_ours else None


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, str | int | float | Path)


def _tagged(value: Any) -> Any:
    if isinstance(value, Path):
        return {"path": str(value)}
    if isinstance(value, tuple):
        return {"tuple": [_tagged(inner) for inner in value]}
    return [_tagged(inner) for inner in value] if isinstance(value, list) else value


def _untagged(value: Any) -> Any:
    if isinstance(value, dict):
        if "path" in value:
            return Path(value["path"])
        return tuple(_untagged(inner) for inner in value["tuple"])
    return [_untagged(inner) for inner in value] if isinstance(value, list) else value


def question_to_json(question: Question) -> str:
    """Write a question; the values of secrets are redacted in it already."""
    return _write(_plain(question))


def question_from_json(text: str) -> Question:
    """Read what `question_to_json` wrote."""
    facts: dict[str, Any] = json.loads(text)
    facts["needs"] = tuple(Need(**each) for each in facts["needs"])
    facts["reasons"] = tuple(facts["reasons"])
    facts["changes"] = _several(FileChange)(facts["changes"])
    return Question(**facts)


def answer_to_json(answer: Answer) -> str:
    """Write an answer."""
    return _write(_plain(answer))


def answer_from_json(text: str) -> Answer:
    """Read what `answer_to_json` wrote."""
    return Answer(**json.loads(text))
