"""Checks arguments and answers against the schemas that a tool declares."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from skillpouch.errors import InvalidArgumentsError, ToolSchemaError, nearest
from skillpouch.json_values import NO_VALUE, json_value
from skillpouch.results import ToolResult
from skillpouch.runtime.memoize import memoize_by_id
from skillpouch.signatures.argv import ArgvPlan, FixedWord
from skillpouch.signatures.command_line import (
    Alias,
    CommandLineError,
    aliases_of,
    all_said,
    plan_for,
    read_words,
    usage_of,
)
from skillpouch.signatures.invocation import SkillFolder, invocation_in
from skillpouch.signatures.signature import JsonSchema
from skillpouch.text import clean
from skillpouch.tools import Script, Tool, real_names

_MOST_SHOWN = 8
_LONGEST_MESSAGE = 400
_LARGE = 2**63  # larger numbers go through JSON: Python writes none of more than 4,300 digits

# Made once: `json.dumps` with options makes an encoder per call.
_encode = json.JSONEncoder(allow_nan=False, ensure_ascii=False).encode
_decode = json.JSONDecoder().raw_decode


def check_arguments(tool: Tool, given: Any) -> dict[str, Any]:
    """Return arguments that fit the tool; raise InvalidArgumentsError with all that do not fit.

    For an untyped tool, text, a list and `{"data": …}` are accepted, too.
    """
    checked = _with_real_names(tool, _as_object(tool, given))
    if not _is_plain(checked):
        checked = _through_json(tool, checked)
    if _takes_nothing(tool) and set(checked) == {"data"}:
        return checked
    try:
        if _validator_for(tool.input_schema).is_valid(checked):
            return checked
        problems = list(_problems(tool.input_schema, checked))
    except ValueError as error:
        reason = f"its input schema is wrong: {str(error).splitlines()[0]}"
        raise ToolSchemaError(tool.id, reason, hint=_who_mends(tool)) from None
    if problems:
        raise InvalidArgumentsError(tool.id, problems, usage=_usage(tool))
    return checked


def _with_real_names(tool: Tool, given: dict[str, Any]) -> dict[str, Any]:
    """Return arguments under the schema's own names.

    Models may be shown safe spellings of them, and people read flags in SKILL.md.
    """
    properties = tool.input_schema.get("properties", {})
    if given.keys() <= properties.keys():
        return given  # the usual case
    other = {safe: Alias(name) for safe, name in real_names(tool.input_schema).items()}
    other |= {written: alias for written, alias in _aliases(tool).items() if written not in other}
    found: dict[str, Any] = {}
    for written, value in given.items():
        alias = other.get(written, Alias(written)) if written not in properties else Alias(written)
        if alias.name in found:
            problem = f"{alias.name} is given twice, in two spellings"
            raise InvalidArgumentsError(tool.id, [problem], usage=_usage(tool))
        is_no = alias.inverts and isinstance(value, bool)
        found[alias.name] = not value if is_no else value
    return found


def _aliases(tool: Tool) -> Mapping[str, Alias]:
    """Return the other names of arguments, by the flags of the script."""
    plan = tool.runs.plan if isinstance(tool.runs, Script) else None
    return aliases_of(plan) if plan else {}


def argument_named(tool: Tool, written: str) -> str:
    """Return the property that a name means: its own, or that of its flag, with dashes or not."""
    properties = tool.input_schema.get("properties", {})
    bare = written.lstrip("-") if written not in properties else written
    for name in (bare, bare.replace("-", "_")):
        if name in properties:
            return name
        alias = _aliases(tool).get(name)
        if alias is not None and not alias.inverts:
            return alias.name
    return written


def _who_mends(tool: Tool) -> str:
    if tool.kind in ("function", "hosted") and not tool.home:
        return "correct the schema where the tool is made: in its function, ToolDef or MCP server"
    return "`skillpouch check` names the place in its skill"


def _is_plain(arguments: dict[str, Any]) -> bool:
    """Tell whether JSON keeps arguments unchanged: ASCII, integers of 64 bits, booleans, null."""
    for name, value in arguments.items():
        kind = type(value)
        if type(name) is not str or not name.isascii():
            return False
        if kind is str:
            if not value.isascii():
                return False
        elif kind is int:
            if not -_LARGE < value < _LARGE:
                return False
        elif kind is not bool and value is not None:
            return False
    return True


def _through_json(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    """Encode and decode arguments: a validator never sees a value that JSON cannot represent."""
    try:
        _require_text_keys(arguments)
        text = _encode(arguments)
        text.encode()  # a lone surrogate is not text
        found: dict[str, Any] = _decode(text)[0]
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentsError(tool.id, [f"not JSON: {error!s:.200}"]) from None
    return found


def _require_text_keys(value: Any) -> None:
    """Refuse `{1: …}`: JSON would turn the key into text, which may equal another key."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            if not isinstance(key, str):
                raise TypeError(f"the name {key!r:.40} is not text")
            _require_text_keys(each)
    elif isinstance(value, list | tuple):
        for each in value:
            _require_text_keys(each)


def arguments_from_text(tool: Tool, pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return typed arguments for `key=value` words; a key whose value is a list may be repeated."""
    properties: Mapping[str, Any] = tool.input_schema.get("properties", {})
    arguments: dict[str, Any] = {}
    for written, text in pairs:
        key = argument_named(tool, written)
        schema = properties.get(key)
        schema = schema if isinstance(schema, dict) else {}
        is_list = schema.get("type") == "array" and isinstance(arguments.get(key, []), list)
        if key in arguments and not is_list:
            problem = f"{key} is given twice, but takes one value"
            raise InvalidArgumentsError(tool.id, [problem], usage=_usage(tool))
        if schema.get("type") == "array" and not isinstance(_typed(text, schema), list):
            items = schema.get("items")
            value = _typed(text, items if isinstance(items, dict) else {})
            arguments.setdefault(key, []).append(value)
        else:
            arguments[key] = _typed(text, schema)
    return arguments


def _typed(text: str, schema: JsonSchema) -> Any:
    """Read text as JSON unless the schema asks for text.

    Without a type in the schema, only objects and lists are read as JSON.
    """
    kinds = schema.get("type")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if kinds == [None] and "enum" not in schema:
        return _object_or_list(text)
    if "string" in kinds or (
        kinds == [None] and all(isinstance(e, str) for e in schema.get("enum", [""]))
    ):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _object_or_list(text: str) -> Any:
    """Return the object or list that JSON text holds; a word or a number stays text."""
    value = json_value(text)
    return value if isinstance(value, dict | list) else text


def _as_object(tool: Tool, given: Any) -> dict[str, Any]:
    properties = tool.input_schema.get("properties", {})
    # `type(…) is dict` first: isinstance with the abstract class Mapping takes ten times as long.
    if type(given) is dict or isinstance(given, Mapping):
        if len(properties) > 1 and "data" in properties:
            return dict(given)  # `data` is one of several parameters, so it is no wrapper
        return _unwrapped(tool, dict(given), properties)
    if given is None:
        return {}
    if takes_data(tool):
        return {"data": given}
    if set(properties) == {"args"}:
        return {"args": [given] if isinstance(given, str) else given}
    if len(properties) == 1:
        return {next(iter(properties)): given}
    problem = f"arguments must be an object, not {_shown(given)}: name each of them"
    raise InvalidArgumentsError(tool.id, [problem], usage=_usage(tool))


def _shown(value: Any) -> str:
    try:
        return f"{value!r:.60}"
    except Exception:  # noqa: BLE001 - nested too deeply, a number too long, a class of the caller's
        return f"this {type(value).__name__}"


def _unwrapped(tool: Tool, given: dict[str, Any], properties: Mapping[str, Any]) -> dict[str, Any]:
    """Remove a `{"data": …}` that the tool does not declare; add it for an untyped tool."""
    if is_untyped(tool.input_schema):
        return given if set(given) <= {"data"} else {"data": given}
    if _takes_nothing(tool):
        return given
    if len(given) == 1 and "data" in given and "data" not in properties:
        data = given["data"]
        return dict(data) if isinstance(data, Mapping) else _as_object(tool, data)
    return given


def is_untyped(schema: JsonSchema) -> bool:
    """Tell whether a schema is `{"data": any}`."""
    properties = schema.get("properties", {})
    if len(properties) != 1 or "data" not in properties:
        return False
    return isinstance(properties["data"], dict) and "type" not in properties["data"]


def takes_data(tool: Tool) -> bool:
    """Tell whether a tool takes `data`, any JSON: it is untyped, or a script without any input."""
    return is_untyped(tool.input_schema) or _takes_nothing(tool)


def _takes_nothing(tool: Tool) -> bool:
    is_script = isinstance(tool.runs, Script) and tool.runs.takes_nothing
    return is_script and not tool.input_schema.get("properties")


def _problems(schema: JsonSchema, arguments: Any) -> Iterable[str]:
    validator = _validator_for(schema)
    for number, error in enumerate(validator.iter_errors(arguments)):
        if number == _MOST_SHOWN:
            yield "… and more"
            return
        where = ".".join(str(part) for part in error.instance_path)
        hint = ""
        if "dditional properties" in error.message:
            hint = _hint(*_inside(schema, arguments, error.instance_path))
        message = f"{_cut(_one_missing(schema, error.schema_path) or error.message)}{hint}"
        yield f"{where}: {message}" if where else message


def _one_missing(schema: JsonSchema, path: Sequence[str | int]) -> str:
    """Return a clear message if none of several arguments is there, of which one is required."""
    if not path or path[-1] != "anyOf":
        return ""
    rules: Any = schema
    for part in path:
        rules = rules[part]
    groups = [rule.get("required", ()) for rule in rules]
    if not all(groups):
        return ""
    names = [" and ".join(group) for group in groups]
    said = ", or ".join(names) if any(group[1:] for group in groups) else ", ".join(names)
    return f"one of {said} is required"


def value_problems(schema: JsonSchema, value: Any) -> list[str]:
    """Return everything in a value that does not fit a schema; an empty list if all fits."""
    return list(_problems(schema, value))


def check_output(tool: Tool, result: ToolResult) -> ToolResult:
    """Return the result if it fits the tool's output schema, else a failed one that says why."""
    schema = tool.output_schema
    if not schema or result.outcome != "ok":
        return result
    try:
        problems = _output_problems(schema, tool, result)
    except ValueError:
        return result  # an invalid output schema checks nothing; `skillpouch check` reports it
    if not problems:
        return result
    said = f"the answer does not fit the tool's output schema: {'; '.join(problems)}"
    return replace(
        result,
        outcome="failed",
        content=clean("\n".join(filter(None, (said, result.content)))),
        exit_code=1,
        stderr=f"{result.stderr}{said}\n",
        code="output_invalid",
    )


def _output_problems(schema: JsonSchema, tool: Tool, result: ToolResult) -> list[str]:
    value = result.structured
    if value is None and not result.returned:
        value = json_value(result.stdout)
        # A function may return text that is the value itself, or text that is JSON for the value.
        if tool.kind in ("function", "hosted") and _validator_for(schema).is_valid(result.stdout):
            return []
    if value is NO_VALUE or (value is None and result.truncated):
        return ["it is too long to be read"] if result.truncated else ["it is not JSON"]
    return value_problems(schema, value)


def _cut(message: str) -> str:
    """Keep both ends of a message: a wrong value may be a megabyte long."""
    if len(message) <= _LONGEST_MESSAGE:
        return message
    half = _LONGEST_MESSAGE // 2
    return f"{message[:half]} … {message[-half:]}"


def _inside(schema: Any, arguments: Any, path: Iterable[Any]) -> tuple[Any, Any]:
    """Return the part of the schema and the part of the arguments at a path."""
    for part in path:
        known = schema if isinstance(schema, dict) else {}
        schema = (
            known.get("items") if isinstance(part, int) else known.get("properties", {}).get(part)
        )
        arguments = arguments[part]
    return schema, arguments


def _hint(schema: Any, arguments: Any) -> str:
    allowed = list(schema.get("properties", {})) if isinstance(schema, dict) else []
    wrong = [key for key in arguments if key not in allowed][:_MOST_SHOWN]
    meant = [near for key in wrong for near in nearest(key, allowed, most=1)]
    said = f"; did you mean {' or '.join(map(repr, dict.fromkeys(meant)))}?" if meant else ""
    return f"; allowed are {', '.join(allowed[:40]) or 'none'}{said}"


@memoize_by_id
def _validator_for(schema: JsonSchema) -> Any:
    from jsonschema_rs import validator_for

    return validator_for(schema, offline=True)


def _usage(tool: Tool) -> str:
    properties = tool.input_schema.get("properties", {})
    required = tool.input_schema.get("required", [])
    names = [name if name in required else f"{name} (optional)" for name in properties]
    return f"{tool.id} takes {', '.join(names) or 'no arguments'}"


def script_arguments(tool: Tool, given: Any) -> Any:
    """Return the arguments for a script that is called by its path; JSON text is decoded.

    For an untyped script, text that is a JSON object stays text: the script gets it unchanged on
    its standard input.
    """
    if not isinstance(given, str):
        return given
    try:
        value = json.loads(given)
    except (ValueError, RecursionError):
        return given
    if takes_data(tool):
        return given if isinstance(value, dict) else {"data": value}
    return value if isinstance(value, dict) else given


def line_arguments(tool: Tool, words: Sequence[str]) -> Any:
    """Return the arguments that the words of a command line mean, read as its script reads them.

    Raises InvalidArgumentsError with the usage for words that the script would not take.
    """
    if is_untyped(tool.input_schema):
        return words[0] if len(words) == 1 else {"data": list(words)} if words else None
    try:
        return read_words(_plan(tool), tool.input_schema, words)
    except CommandLineError as error:
        raise InvalidArgumentsError(tool.id, error.problems, usage=_line_usage(tool)) from None


def _program(tool: Tool) -> str:
    file = tool.runs.file if isinstance(tool.runs, Script) else ""
    return file.removeprefix(f"{tool.home}/") if file else tool.id


def call_of_line(skill: str, tools: Iterable[Tool], line: str) -> tuple[Tool, Any]:
    """Return the tool of a skill that a usage line runs, and the arguments that it is given.

    The line is read, not run: there is no shell that would expand or redirect anything.
    """
    scripts = [tool for tool in tools if isinstance(tool.runs, Script)]
    named = {_program(tool): tool for tool in scripts}
    languages = {
        path: tool.runs.language for path, tool in named.items() if isinstance(tool.runs, Script)
    }
    folders = [SkillFolder(tool.home, tool.place, tool.skill) for tool in scripts]
    folder = folders[0] if folders else SkillFolder("")
    try:
        found = invocation_in(line, languages, folder)
    except CommandLineError as error:
        raise _refused_line(skill, named, error) from None
    tool = _with_command([one for one in scripts if _program(one) == found.script], found.words)
    if found.sets:
        name = found.sets[0]
        way = f"skillpouch trust {tool.skill} --set {name}=… or, if it is a secret, --secret {name}"
        problem = f"the line sets {name}, and a call cannot set variables"
        raise InvalidArgumentsError(tool.id, [problem], usage=f"leave it out, or grant it: {way}")
    return tool, line_arguments(tool, found.words)


def _refused_line(
    skill: str, named: Mapping[str, Tool], error: CommandLineError
) -> InvalidArgumentsError:
    meant = named.get(error.script)
    if meant is None:
        known = f"the scripts of {skill} are {', '.join(named) or 'none'}"
        return InvalidArgumentsError(skill, error.problems, usage=known)
    return InvalidArgumentsError(meant.id, error.problems, usage=_line_usage(meant))


def _line_usage(tool: Tool) -> str:
    return f"usage: {usage_of(_plan(tool), tool.input_schema, _program(tool))}"


def _plan(tool: Tool) -> ArgvPlan:
    plan = tool.runs.plan if isinstance(tool.runs, Script) else None
    return plan or plan_for(tool.input_schema)


def _with_command(tools: Sequence[Tool], words: Sequence[str]) -> Tool:
    """Return the tool of the sub-command that words name, else that of the script itself."""
    plans = [(tool, _fixed(tool)) for tool in tools]
    said = [(tool, fixed) for tool, fixed in plans if all_said(fixed, words)]
    return max(said or plans, key=lambda each: len(each[1]))[0]


def _fixed(tool: Tool) -> tuple[str, ...]:
    return tuple(part.text for part in _plan(tool) if isinstance(part, FixedWord))
