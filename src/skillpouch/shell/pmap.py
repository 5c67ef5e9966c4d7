"""`pmap`: runs one tool for each line or JSON value of its input, several at a time, in order."""

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from skillpouch.errors import PortableError, nearest
from skillpouch.json_values import NO_VALUE, json_value
from skillpouch.shell.tool_command import INVALID, NOT_FOUND, ToolCalls
from skillpouch.shell.worker.protocol import CommandReply

_USAGE = "usage: … | pmap [-j N] TOOL [WORDS with {} or {.field}]\n"
_DEFAULT_JOBS = 8
_MOST_ITEMS = 10_000
_JOBS = re.compile(r"0*[1-9][0-9]{0,5}")
_PLACE = re.compile(r"\{(?:\.([\w-]+))?\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    jobs: int
    tool: str
    words: tuple[str, ...]


class PmapError(PortableError):
    """Words that pmap does not understand; `code` is its exit code."""

    def __init__(self, message: str, code: int = INVALID) -> None:
        super().__init__(message)
        self.code = code


async def run_pmap(
    words: Sequence[str], stdin: str | None, calling: ToolCalls, tools: Sequence[str]
) -> CommandReply:
    """Call a tool for each item; the outputs in the order of the items, then what failed."""
    try:
        plan = _plan(words, tools)
        items = _items(stdin or "")
        lines = [_filled(plan.words, item) for item in items]
    except PmapError as error:
        return CommandReply("", f"pmap: {error}\n", error.code)
    parallel = asyncio.Semaphore(plan.jobs)

    async def one(line: tuple[str, ...]) -> CommandReply:
        async with parallel:
            return await calling.call(plan.tool, line, None)

    answers = await asyncio.gather(*(one(line) for line in lines))
    failed = [number for number, answer in enumerate(answers, 1) if answer.exit_code]
    errors = "".join(answer.stderr for answer in answers)
    if failed:
        which = ", ".join(map(str, failed[:10])) + (" …" if len(failed) > 10 else "")  # noqa: PLR2004
        errors += f"pmap: {len(failed)} of {len(answers)} failed: item {which}\n"
    return CommandReply("".join(answer.stdout for answer in answers), errors, 1 if failed else 0)


def _plan(words: Sequence[str], tools: Sequence[str]) -> _Plan:
    rest, jobs = list(words), _DEFAULT_JOBS
    while rest and rest[0].startswith("-"):
        flag = rest.pop(0)
        text = flag[2:] or (rest.pop(0) if rest else "")
        if not flag.startswith("-j") or not _JOBS.fullmatch(text):
            raise PmapError(f"{flag} {text}".strip() + f" is not an option\n{_USAGE}".rstrip())
        jobs = int(text)
    if not rest:
        raise PmapError(f"it needs a tool\n{_USAGE}".rstrip())
    tool, *words_of = rest
    if tool not in tools:
        near = nearest(tool, tools, most=1)
        meant = f"; did you mean {near[0]}?" if near else "; it runs tools, not shell commands"
        raise PmapError(f"no tool named {tool}{meant}", NOT_FOUND)
    return _Plan(jobs=jobs, tool=tool, words=tuple(words_of))


def _items(text: str) -> list[Any]:
    """Return the values of a JSON array, or the lines that are not empty."""
    value = json_value(text) if text.lstrip().startswith("[") else NO_VALUE
    items = value if isinstance(value, list) else [line for line in text.split("\n") if line]
    if len(items) > _MOST_ITEMS:
        raise PmapError(f"{len(items):,} items; it takes {_MOST_ITEMS:,} at once")
    return items


def _filled(words: tuple[str, ...], item: Any) -> tuple[str, ...]:
    if not any(_PLACE.search(word) for word in words):
        value = _value(item)
        if isinstance(value, dict) and "--" not in words:
            return (*words, "--json", _text(item))
        # Behind two dashes: a line of somebody else's text must never become a flag.
        return (*words, *(() if "--" in words else ("--",)), _text(item))
    return tuple(_PLACE.sub(lambda place: _part(item, place[1]), word) for word in words)


def _part(item: Any, field: str | None) -> str:
    if field is None:
        return _text(item)
    value = _value(item)
    if not isinstance(value, dict) or field not in value:
        raise PmapError(f"an item has no {field!r}: {_text(item):.80}")
    return _text(value[field])


def _value(item: Any) -> Any:
    return json_value(item) if isinstance(item, str) else item


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
