"""Writes docs/reference/cli.md and api.md from the commands and docstrings: `make reference`."""

import dataclasses
import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import click

import skillpouch
import skillpouch.errors
from skillpouch.builtins.kept_calls import ChangeMethods
from skillpouch.cli import cli
from skillpouch.jobs.job_methods import JobMethods

PAGES = Path(__file__).parents[1] / "docs" / "reference"
_HEAD = """# Command line

Made from `skillpouch --help` by `make reference`; edit the commands, not this page.

Results go to standard output, everything else to standard error.

| exit code | meaning |
| --- | --- |
| 0 | fine |
| 1 | the tool ran and failed; for `check`: a skill was skipped, or with `--strict` any problem |
| 2 | wrong call: unknown name, invalid arguments, usage |
| 3 | denied |
| 4 | could not be started |
| 124 | for `jobs wait --timeout`: it has not ended yet |
"""


def reference() -> str:
    """Return the page: the help of the program and of each command."""
    top = click.Context(cli, info_name="skillpouch", **cli.context_settings)
    parts = [_HEAD, f"## skillpouch\n\n```text\n{cli.get_help(top)}\n```\n"]
    return "\n".join([*parts, *_commands_of(cli, top)])


def _commands_of(group: click.Group, above: click.Context) -> Iterator[str]:
    for name in group.list_commands(above):
        command = group.get_command(above, name)
        assert command is not None
        context = click.Context(command, info_name=name, parent=above)
        level = "#" * (2 if above.parent is None else 3)
        yield f"{level} {context.command_path}\n\n```text\n{command.get_help(context)}\n```\n"
        if isinstance(command, click.Group):
            yield from _commands_of(command, context)


_API_HEAD = """# Python

Made from docstrings by `make reference`; edit those, not this page. What is not here may change
without notice.

Everything on this page is imported from `skillpouch`, unless it says from where; errors come from
`skillpouch.errors`. A wrong caller and a tool that could not be started raise; a tool that ran and
failed is a returned `ToolResult` whose `outcome` says so.
"""
_EXTENDING_HEAD = """## For other packages

What [backends and sandboxes](../extending.md) of other packages use.
"""
_EXTENDING = {
    "skillpouch.backends": ["Backend"],
    "skillpouch.calls": ["ToolCall"],
    "skillpouch.tools": ["External"],
    "skillpouch.execution.sandboxes": ["SandboxProvider"],
    "skillpouch.execution.command": ["Command"],
    "skillpouch.execution.confinement": ["Confinement", "paths_of"],
    "skillpouch.testing": ["check_backend", "BackendCases", "check_sandbox", "ContractError"],
}
_MODULES_HEAD = """## In modules of their own

What the other pages use besides.
"""
_MODULES = {
    "skillpouch.needs": ["Need"],
    "skillpouch.policy": [
        *("Rule", "Condition", "Equals", "Request", "Question", "Answer", "ask", "load_policy"),
        *("ChangeConditions", "ChangeFacts"),
    ],
    "skillpouch.trust.grants": ["Grants"],
    "skillpouch.trust.grant": ["missing"],
    "skillpouch.trust.requested": ["asks_of"],
    "skillpouch.journal.journal": ["Journal"],
    "skillpouch.journal.reading": ["JournalReader", "Query"],
    "skillpouch.journal.telemetry": ["Telemetry"],
    "skillpouch.secrets.redaction": ["Redactor"],
    "skillpouch.environment": ["state_directory"],
    "skillpouch.templates": ["ArgvTemplate", "JsonTemplate", "UrlTemplate"],
    "skillpouch.builtins.workspace.running": ["built_in_tools"],
    "skillpouch.builtins.workspace.context": ["WorkspaceSession"],
    "skillpouch.builtins.kept_calls": ["KeptChanges"],
    "skillpouch.results": ["FileChange", "Conflict"],
    "skillpouch.jobs.job": ["Job", "JobOutput", "JobUpdate", "KeptQuestion"],
    "skillpouch.builtins.disclosure": ["skills_prompt"],
    "skillpouch.integrations.langchain": [
        *("create_langchain_tools", "get_skill_tools", "SkillpouchMiddleware"),
    ],
    "skillpouch.integrations.openai": ["openai_tools", "run_openai_calls"],
    "skillpouch.integrations.anthropic": ["anthropic_tools", "run_anthropic_calls"],
    "skillpouch.integrations.pydantic_ai": ["SkillpouchToolset"],
    "skillpouch.integrations.agents": ["agents_tools"],
    "skillpouch.integrations.long_calls": ["LongCallOptions"],
    "skillpouch.mcp_client": ["McpServers", "read_user_mcp"],
    "skillpouch.servers.addresses": ["Address"],
    "skillpouch.servers.lifecycle": ["Stop"],
    "skillpouch.servers.mcp": ["McpServer"],
    "skillpouch.servers.grpc": ["GrpcServer", "GrpcSettings"],
    "skillpouch.testing": ["run_tool", "cassette"],
}
_ERRORS_HEAD = """## Errors

Every error has a `code` that never changes, a message, and a `hint` with the next step.

| error | code | when |
| --- | --- | --- |
"""


def api() -> str:
    """Return the page of the public names."""
    parts = [_API_HEAD]
    for name in sorted(skillpouch.__all__, key=str.lower):
        value = getattr(skillpouch, name)
        if inspect.isclass(value) and not issubclass(value, Exception):
            parts += _class(name, value)
        elif inspect.isfunction(value):
            parts.append(_entry(f"## `{name}`", f"{name}{_signature(value)}", value))
    parts += [_MODULES_HEAD, *_imported(_MODULES), _EXTENDING_HEAD, *_imported(_EXTENDING)]
    return "\n".join([*parts, _ERRORS_HEAD + "".join(_errors())])


def _imported(names_by_module: dict[str, list[str]]) -> Iterator[str]:
    for module, names in names_by_module.items():
        for name in names:
            value = getattr(import_module(module), name)
            yield _entry(f"### `{name}`", _shown(module, name, value), value)
            yield from _methods(value)


def _methods(value: Any) -> Iterator[str]:
    """List the methods of a class, each with the first sentence about it."""
    if not inspect.isclass(value) or getattr(value, "_is_protocol", False):
        return
    lines = []
    for member, raw in vars(value).items():
        made = raw.__func__ if isinstance(raw, classmethod | staticmethod) else raw
        about = (inspect.getdoc(made) or "").partition("\n")[0]
        if inspect.isfunction(made) and about and not member.startswith("_"):
            lines.append(f"- `{member}`: {about}\n")
    if lines:
        yield "".join(lines)


def _shown(module: str, name: str, value: Any) -> str:
    """Return how something is called, or, of an interface, the method that implements it."""
    methods = [each for each in vars(value) if not each.startswith("_")]
    if not getattr(value, "_is_protocol", False):
        return f"{module}.{name}{_signature(value)}"
    made = [getattr(value, each) for each in methods]
    waits = ["async " if inspect.iscoroutinefunction(each) else "" for each in made]
    lines = [f"    {w}def {m.__name__}{_signature(m)}" for w, m in zip(waits, made, strict=True)]
    return "\n".join([f"class {module}.{name}", *lines])


def _class(name: str, value: type) -> Iterator[str]:
    yield _entry(f"## `{name}`", f"{name}{_signature(value)}", value)
    for member, raw in _members(value).items():
        made = raw.__func__ if isinstance(raw, classmethod | staticmethod) else raw
        if member.startswith("_") or not inspect.getdoc(made):
            continue
        if inspect.isfunction(made):
            waits = "async " if inspect.iscoroutinefunction(made) else ""
            yield _entry(f"### `{name}.{member}`", f"{waits}{member}{_signature(made)}", made)
        elif isinstance(made, property) or hasattr(made, "func"):
            yield f"### `{name}.{member}`\n\n{inspect.getdoc(made)}\n"


def _members(value: type) -> dict[str, Any]:
    """Return what a class has of its own, then what it has of the classes of methods above it."""
    inherited = [vars(each) for each in (ChangeMethods, JobMethods) if issubclass(value, each)]
    return {
        **vars(value),
        **{n: made for each in inherited for n, made in each.items() if n not in vars(value)},
    }


def _entry(title: str, code: str, value: Any) -> str:
    return f"{title}\n\n```text\n{code}\n```\n\n{_text(value)}\n"


def _text(value: Any) -> str:
    own = inspect.getdoc(value) or ""
    return "" if dataclasses.is_dataclass(value) and own.startswith(f"{value.__name__}(") else own


def _signature(value: Any) -> str:
    try:
        found = inspect.signature(value)
    except ValueError:
        return ""
    kept = [each.replace(annotation=_plain(each.annotation)) for each in found.parameters.values()]
    kept = [each.replace(default=_default(each.default)) for each in kept if each.name != "self"]
    kept = [each for each in kept if each.name != "cls"]
    result = inspect.Signature.empty if inspect.isclass(value) else _plain(found.return_annotation)
    made = str(inspect.Signature(kept, return_annotation=result))
    if len(made) <= _LINE:
        return made
    words = [f"    {each},\n" for each in map(str, kept)]
    star = next((n for n, each in enumerate(kept) if each.kind is each.KEYWORD_ONLY), None)
    if star is not None and not any(each.kind is each.VAR_POSITIONAL for each in kept):
        words.insert(star, "    *,\n")
    ends = f" -> {result}" if result is not inspect.Signature.empty else ""
    return f"(\n{''.join(words)}){ends}"


_LINE = 90


class _Word(str):
    """A text that is shown without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _plain(annotation: Any) -> Any:
    if annotation is inspect.Signature.empty:
        return annotation
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    for module in ("skillpouch.", "typing.", "collections.abc.", "pathlib."):
        while module in text:
            before, _, after = text.partition(module)
            text = before + (after if module != "skillpouch." else _last(after))
    return _Word(text.replace("'", "").replace('"', ""))


def _last(dotted: str) -> str:
    """Return a name without the modules in front of it."""
    head = 0
    while head < len(dotted) and (dotted[head].isalnum() or dotted[head] in "_."):
        head += 1
    return dotted[:head].rpartition(".")[2] + dotted[head:]


def _default(value: Any) -> Any:
    """Return a default that reads the same on every machine."""
    if value is inspect.Parameter.empty or isinstance(value, str | int | float | bool | tuple):
        return value
    return value if value is None else _Word("…")


def _errors() -> Iterator[str]:
    found = [value for value in vars(skillpouch.errors).values() if inspect.isclass(value)]
    ours = [each for each in found if issubclass(each, skillpouch.errors.SkillpouchError)]
    for each in sorted(ours, key=lambda each: each.__name__):
        said = (vars(each).get("__doc__") or "").strip().partition("\n")[0]
        yield f"| `{each.__name__}` | `{each.code}` | {said} |\n"


if __name__ == "__main__":
    (PAGES / "cli.md").write_text(reference())
    (PAGES / "api.md").write_text(api())
