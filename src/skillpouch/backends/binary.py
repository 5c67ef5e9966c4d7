"""Running a binary: on the machine, in the skill, or fetched; its words from a template."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from skillpouch.backends.conventions import delivery_of_declared
from skillpouch.backends.executables import find_executable, visible_for
from skillpouch.backends.filling import fill_for
from skillpouch.backends.programs import Program, run_program
from skillpouch.calls import ToolCall
from skillpouch.errors import CommandStartError
from skillpouch.provision.programs.platforms import this_platform
from skillpouch.provision.programs.programs import Terms, program_for
from skillpouch.provision.programs.wanted import wanted_for
from skillpouch.provision.programs.web import web_opener
from skillpouch.results import ToolResult
from skillpouch.templates import ArgvTemplate
from skillpouch.tools import Binary


async def run_binary(call: ToolCall, binary: Binary) -> ToolResult:
    """Run it with the words of its template, or without one with its arguments as JSON on stdin."""
    words = None
    if binary.args_template is not None:
        template = _template(binary.args_template, _dashed(call.tool.input_schema))
        words = tuple(fill_for(call, template.fill))
    file = await _file(call, binary)
    program = Program(argv=(str(file),), visible=visible_for(file))
    return await run_program(call, program, delivery_of_declared(call, words))


async def _file(call: ToolCall, binary: Binary) -> Path:
    if binary.path:
        return find_executable(call, binary.path)
    if not binary.url:
        raise CommandStartError(call.tool.id, "its backend has neither `path` nor `url`")
    given = call.given
    wanted = wanted_for(binary.url, binary.sha256, this_platform()).held_to(given.programs)
    terms = Terms(
        skill=call.tool.skill,
        opener=web_opener(call.tool.skill, given.hosts),
        vouch=call.vouch,
        on_progress=call.on_progress,
    )
    file = await program_for(wanted, terms)
    call.watch.lap("fetch the program")
    return file


@lru_cache(maxsize=1024)
def _template(text: str, dashed: frozenset[str]) -> ArgvTemplate:
    return ArgvTemplate.parse(text, dashed=dashed)


def _dashed(schema: Mapping[str, Any]) -> frozenset[str]:
    """Return the arguments that may begin with `-`: those whose schema lists such values."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return frozenset()
    return frozenset(name for name, each in properties.items() if _lists_values(each))


def _lists_values(schema: Any) -> bool:
    # Whoever wrote the list has seen what is in it; what is not in it never gets here.
    if not isinstance(schema, Mapping):
        return False
    items = schema.get("items")
    return "enum" in schema or "const" in schema or (items is not None and _lists_values(items))
