"""The commands that every script has: help, discover, result and job."""

import asyncio
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from skillpouch.errors import SkillpouchError, nearest
from skillpouch.json_values import LARGEST_VALUE, NO_VALUE, json_value
from skillpouch.shell.prompt import help_page
from skillpouch.shell.schema_shapes import properties_of
from skillpouch.shell.tool_command import INVALID, ToolCalls, printed
from skillpouch.shell.toolbox import Toolbox, ToolDef
from skillpouch.shell.usage import usage_line, usage_page
from skillpouch.shell.worker.protocol import CommandReply

if TYPE_CHECKING:
    from skillpouch.calls import OnStep

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD = re.compile(r"[^\W_]+")
_FILLERS = frozenset(
    {"a", "an", "and", "at", "by", "for", "in", "is", "of", "on", "or", "the", "to"}
)
_NAME, _DESCRIPTION, _PARAMETER = 6.0, 3.0, 2.0
_MOST_WORDS = 32
_LONGEST_WORD = 64
_MOST_READ = 2_000  # characters of a description: what comes later describes details
_SHORTEST_BEGINNING = 3


def discover(
    words: str | Sequence[str], tools: Iterable[ToolDef], *, most: int = 20
) -> list[ToolDef]:
    """Return the tools that words describe, best first; without words, the first tools.

    A word counts the more, the fewer tools it describes; one that describes none is taken for
    the nearest one that does.
    """
    tools = list(tools)
    wanted = _wanted(words if isinstance(words, str) else " ".join(words))
    if not wanted:
        return tools[:most]
    weights = [_weights(tool) for tool in tools]
    counts = Counter(term for each in weights for term in each)
    scores = [0.0] * len(tools)
    for term in wanted:
        _add(scores, weights, _meant(term, counts))
    ranked = sorted(range(len(tools)), key=lambda each: (-scores[each], tools[each].name))
    return [tools[each] for each in ranked[:most] if scores[each]]


def _wanted(text: str) -> list[str]:
    terms = list(dict.fromkeys(_terms(text)))
    return [term for term in terms if term not in _FILLERS][:_MOST_WORDS] or terms[:_MOST_WORDS]


def _terms(text: str) -> list[str]:
    """Return the words of a text in lower case, without the `s` of a plural."""
    return [
        word.removesuffix("s") if len(word) > _SHORTEST_BEGINNING else word
        for word in _WORD.findall(_HUMP.sub(" ", text).lower())
    ]


def _weights(tool: ToolDef) -> dict[str, float]:
    """Return how much each word says about a tool, by the best place where it stands."""
    found = dict.fromkeys(_terms(" ".join(properties_of(tool.input_schema))), _PARAMETER)
    found |= dict.fromkeys(_terms(tool.description[:_MOST_READ]), _DESCRIPTION)
    return found | dict.fromkeys(_terms(tool.name), _NAME)


def _meant(term: str, known: Counter[str]) -> dict[str, float]:
    """Return the known words that a term stands for, and how well each does."""
    if term in known:
        return {term: 1.0}
    if len(term) >= _SHORTEST_BEGINNING:
        longer = {each: 0.6 for each in known if each.startswith(term)}
        if longer:
            return longer
    return dict.fromkeys(nearest(term[:_LONGEST_WORD], sorted(known), most=2), 0.4)


def _add(scores: list[float], weights: list[dict[str, float]], meant: dict[str, float]) -> None:
    found: dict[int, float] = {}
    for number, each in enumerate(weights):
        fits = [each[term] * share for term, share in meant.items() if term in each]
        if fits:
            found[number] = max(fits)
    rarity = math.log(1 + len(scores) / max(1, len(found)))
    for number, weight in found.items():
        scores[number] += weight * rarity


# Commands of the engine that would do nothing, or not what they say: name → why.
STUBS = {
    **dict.fromkeys(("curl", "wget", "http"), "disabled: scripts reach the network through tools"),
    "parallel": "disabled: `pmap -j N TOOL {}` runs a tool for each line, N at a time",
}


class ResultBox:
    """What the command `result` sets: the value of the whole script."""

    def __init__(self) -> None:
        self.value: Any = None

    def set(self, words: Sequence[str], stdin: str | None) -> CommandReply:
        text = words[0] if words else stdin or ""
        if len(words) > 1:
            return CommandReply("", "result: one JSON value; quote it\n", 2)
        if len(text) > LARGEST_VALUE:
            hint = f"{LARGEST_VALUE:,} characters are the most; write more to a file below /out"
            return CommandReply(
                "", f"result: a value of {len(text):,} characters\nhint: {hint}\n", 2
            )
        value = json_value(text)
        if value is NO_VALUE:
            hint = "quote it, or pipe JSON into it: … | jq '{total: .n}' | result"
            return CommandReply("", f"result: {text[:80]!r} is not JSON\nhint: {hint}\n", 2)
        self.value = value
        return CommandReply()


JOB_PAGE = """\
Runs a command as a job: it goes on when this script has ended.

Usage: job start COMMAND [WORDS]   start it, and print the id of the job
       job wait ID [SECONDS]       wait until it has ended, and print what it gave
       job output ID [OFFSET]      print what it has printed so far, from a byte on
       job cancel ID               end it, with everything that it started; print its state

`job wait` ends as the command did, or with 124 if the job has not ended after SECONDS.
Only jobs of whoever runs this script are found.
"""
_NOT_ENDED = 124  # as timeout(1)
_NUMBERS = {
    "wait": re.compile(r"[0-9]{1,7}(?:\.[0-9]{1,9})?"),
    "output": re.compile(r"[0-9]{1,15}"),
}
_MOST_PRINTED_BYTES = 8 * 1024 * 1024


class JobCommand:
    """Answers `job`: starts tools that go on as jobs, and finds those of its caller again."""

    def __init__(
        self, toolbox: Toolbox, calling: ToolCalls, dry_run: bool, on_step: "OnStep | None"
    ) -> None:
        self._toolbox = toolbox
        self._calling = calling
        self._dry_run = dry_run
        self._on_step = on_step

    async def run(self, words: Sequence[str], stdin: str | None) -> CommandReply:
        """Answer one command line; an id that is wrong, or words that are, end with an error."""
        try:
            match list(words):
                case ["--help" | "-h" | "help"]:
                    return CommandReply(JOB_PAGE)
                case ["start", name, *rest]:
                    return await self._calling.call(name, rest, stdin, starts=True)
                case [("wait" | "output" | "cancel") as verb, job_id, *more] if _fits(verb, more):
                    answer = {"wait": self._wait, "output": self._output, "cancel": self._cancel}
                    return await answer[verb](job_id, *more)
                case _:
                    said, usage = " ".join(words)[:80], JOB_PAGE.split("\n\n")[1]
                    return CommandReply("", f"job: {said!r} is not understood\n{usage}\n", INVALID)
        except SkillpouchError as error:
            return self._calling.refused("job", error)

    async def _wait(self, job_id: str, seconds: str = "") -> CommandReply:
        from skillpouch.jobs.soft_limit import Wanted, is_left, wait_or_leave

        job = await self._toolbox.job(job_id)
        heard = Wanted(tool=job.tool, on_step=self._on_step)
        most = float(seconds) if seconds else None
        result = await wait_or_leave(job, most, heard, for_answer=True)
        if not is_left(result):
            return printed(job.tool, result)
        question = await asyncio.to_thread(lambda: job.question)
        waits = "" if question is None else f", until `skillpouch approve {question.id}`"
        after = f"job: {job.id} ({job.tool}) has not ended after {seconds} s{waits}"
        return CommandReply("", f"{after}\n", _NOT_ENDED)

    async def _output(self, job_id: str, offset: str = "0") -> CommandReply:
        job = await self._toolbox.job(job_id)
        found = await asyncio.to_thread(job.output, int(offset), most_bytes=_MOST_PRINTED_BYTES)
        note = f"note: job: {found.left_out:,} bytes before this are not kept\n"
        text = found.data.decode("utf-8", "replace")
        return CommandReply(text, note if found.left_out else "")

    async def _cancel(self, job_id: str) -> CommandReply:
        job = await self._toolbox.job(job_id)
        if self._dry_run:
            return CommandReply("", f"dry run: job {job.id} was not cancelled\n")
        return CommandReply(f"{await job.acancel()}\n")


def _fits(verb: str, words: Sequence[str]) -> bool:
    """Tell whether these words may follow the id of a job: at most one number."""
    number = _NUMBERS.get(verb)
    return not words or (
        len(words) == 1 and number is not None and bool(number.fullmatch(words[0]))
    )


def help_for(
    words: Sequence[str], name: str, tools: Mapping[str, ToolDef], about: str
) -> CommandReply:
    """Answer `help`, `help NAME` and `help --json NAME`."""
    names = [word for word in words if word != "--json"]
    if not names:
        return CommandReply(_line(help_page(name, list(tools.values()), short_description=about)))
    tool = tools.get(names[0])
    if tool is None and names[0] == "job":
        return CommandReply(JOB_PAGE)
    if tool is None:
        near = nearest(names[0], tools)
        meant = f"did you mean {' or '.join(near)}?" if near else "`discover WORDS` finds commands"
        return CommandReply("", f"help: no command named {names[0]}\nhint: {meant}\n", 1)
    return CommandReply(_line(_as_json(tool) if "--json" in words else usage_page(tool)))


def discovered(words: Sequence[str], tools: Mapping[str, ToolDef]) -> CommandReply:
    """Answer `discover WORDS`: the commands that fit, best first, each with its usage."""
    found = discover(words, tools.values())
    if not found:
        return CommandReply("", "discover: no command matches; `help` shows all\n", 1)
    lines = [f"{tool.name}: {tool.description}\n  {usage_line(tool)}\n" for tool in found]
    return CommandReply("".join(lines))


def _as_json(tool: ToolDef) -> str:
    return json.dumps(
        {
            "name": tool.name,
            "description": tool.description,
            "input_schema": tool.input_schema,
            "output_schema": tool.output_schema,
            "effects": list(tool.effects),
        }
    )


def _line(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"
