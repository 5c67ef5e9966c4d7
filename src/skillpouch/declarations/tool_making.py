"""Turns a declaration into a Tool: names, schema, backend, limits, effects."""

from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any, Literal

from skillpouch.declarations.declared import Declared
from skillpouch.declarations.scripts_folder import ScriptFile
from skillpouch.declarations.skill_md import is_bash
from skillpouch.declarations.skill_text import said_about
from skillpouch.limits import PROGRAM_SECONDS
from skillpouch.problems import Problem
from skillpouch.signatures.argv import ArgvArgument, ArgvPlan
from skillpouch.signatures.shebang import TYPESCRIPT_NODE, Language
from skillpouch.signatures.signature import Interface, JsonSchema, Signature
from skillpouch.signatures.usage_lines import Command, command_words, usage_fits, usage_lines
from skillpouch.skills import Skill
from skillpouch.text import clean
from skillpouch.tools import (
    Binary,
    Effect,
    External,
    Http,
    InlineScript,
    Runs,
    Script,
    Stub,
    Tool,
    tool_id,
    wire_name,
)

_INTERPRETERS: dict[Language, tuple[str, ...]] = {
    "python": (),  # the one that runs Skillpouch
    "shell": ("bash", "sh"),
    "javascript": ("node",),
    "typescript": (TYPESCRIPT_NODE,),
    "ruby": ("ruby",),
    "perl": ("perl",),
}


def needs_of(runs: Runs) -> tuple[str, ...]:
    """Return executables of which one must be installed; none for what Skillpouch does itself.

    For a backend of another package, the name of the backend.
    """
    match runs:
        case Script(language=language, file=file):
            return ("zsh",) if file.endswith(".zsh") else _INTERPRETERS[language]
        case InlineScript(interpreter=interpreter):
            return (interpreter,)
        # A relative path names a file of the skill, which does not have to be installed.
        case Binary(path=str(path)) if "/" not in path or PurePosixPath(path).is_absolute():
            return (path,)
        case External():
            return (runs.need,)
        case _:
            return ()


UNTYPED: JsonSchema = {
    "type": "object",
    "properties": {
        "data": {"description": "Any JSON, passed to the script on standard input"},
    },
}
_READS_LINES: JsonSchema = {
    "type": "object",
    "properties": {
        "data": {"description": "Text, passed to the script on standard input as it is"},
    },
}
_NO_PARAMETERS: JsonSchema = {"type": "object", "properties": {}}
_READS_NOTHING: JsonSchema = {**_NO_PARAMETERS, "additionalProperties": False}


def call_of(declared: Declared, signature: Signature) -> Interface:
    """Return the interface of a declared script: the declared schema, and how the code takes it."""
    read = signature.interface
    if declared.input_schema is None:
        return _undeclared(declared, read)
    interface = replace(read, input_schema=declared.input_schema)
    if read.convention == "handler":
        return interface
    names = set(declared.input_schema.get("properties", {}))
    if names and _takes(read, names):
        return interface
    if declared.source == "manifest":
        plan = tuple(
            ArgvArgument(name=name) for name in declared.input_schema.get("properties", {})
        )
        return replace(interface, convention="argv", plan=plan)
    return replace(interface, convention="stdin", plan=None)


def _undeclared(declared: Declared, read: Interface) -> Interface:
    if read.input_schema is not None or declared.source == "manifest":
        return read
    # In tools.json, a tool without `parameters` takes none.
    return replace(read, input_schema=_NO_PARAMETERS)


def _takes(read: Interface, names: set[str]) -> bool:
    if read.convention == "main":
        return names <= set((read.input_schema or {}).get("properties", {}))
    return read.convention == "argv" and names <= _planned(read.plan or ())


def _planned(plan: ArgvPlan) -> set[str]:
    return {part.name for part in plan if isinstance(part, ArgvArgument)}


# Set by Skillpouch for every call, so nobody needs to grant them.
_OURS = ("TOOL_ARG", "SKILL_NAME", "SKILL_BASE_DIR", "SKILL_VERSION", "SKILLPOUCH_")
_READING_METHODS = ("GET", "HEAD")


@dataclass(slots=True, kw_only=True)
class ToolMaker:
    """Makes the tools of one skill; the `body` of its SKILL.md may show how scripts are used."""

    skill: Skill
    body: str
    home: str
    first_line: int = 1  # of the body, in SKILL.md
    timeout_ms: int | None = None  # of programs that declare none themselves
    problems: list[Problem] = field(default_factory=list)

    def without_script(self, declared: Declared) -> Tool:
        """Make a tool that runs its declared backend, or tells its caller to load the skill."""
        schema = declared.input_schema or {"type": "object", "properties": {}}
        interface = Interface(
            convention="stdin",
            description=f"Use the skill {self.skill.name}",
            input_schema=schema,
        )
        return self._tool(declared, declared.runs or Stub(skill=self.skill.name), interface)

    def declared(self, declared: Declared, script: ScriptFile) -> Tool:
        """Make a tool of a declaration and the script it names."""
        interface = call_of(declared, script.signature)
        reader = script.signature.reader if declared.input_schema is None else "declaration"
        return self._script_tool(declared, script, interface, reader)

    def discovered(self, name: str, script: ScriptFile) -> list[Tool]:
        """Make the tools of a script without a declaration: one, or one per sub-command."""
        signature = script.signature
        alone: list[Tool] = []
        if not signature.commands or signature.runs_alone:
            declared = Declared(name=name, source="scripts")
            interface = signature.interface
            if signature.takes_nothing or signature.reads_lines:
                schema = _READS_NOTHING if signature.takes_nothing else _READS_LINES
                interface = replace(interface, input_schema=schema)
            alone = [self._script_tool(declared, script, interface, signature.reader)]
        return alone + [
            self._script_tool(
                Declared(name=f"{name}.{command}", source="scripts"),
                script,
                replace(
                    interface,
                    description=interface.description or signature.interface.description,
                ),
                signature.reader,
            )
            for command, interface in signature.commands.items()
        ]

    def _script_tool(
        self, declared: Declared, script: ScriptFile, interface: Interface, read_by: str
    ) -> Tool:
        if not (declared.description or interface.description):
            interface = self._described(script, interface)
        runs = self._script(script, interface)
        variables = (*declared.variables, *script.signature.variables)
        declared = replace(declared, variables=variables)
        of_scripts = declared.source == "scripts"
        commands = script.signature.commands.values() if of_scripts else ()
        examples = self._examples(script, interface.plan, [command_words(c.plan) for c in commands])
        return replace(self._tool(declared, runs, interface), examples=examples, read_by=read_by)

    def _described(self, script: ScriptFile, interface: Interface) -> Interface:
        """Describe a script that says nothing about itself by what SKILL.md says about it."""
        said = said_about(self.body, script.path)
        if said is None:
            return interface
        message = f"{script.path} is described by this line: it says nothing about itself"
        self.report("described-by-text", message, said.line)
        return replace(interface, description=said.text)

    def report(self, code: str, message: str, line: int) -> None:
        """Report something about a line of the body."""
        problem = Problem(
            path=self.skill.file,
            code=code,
            severity="info",
            message=message,
            line=self.first_line + line - 1,
        )
        if problem not in self.problems:
            self.problems.append(problem)

    def _tool(self, declared: Declared, runs: Runs, interface: Interface) -> Tool:
        name, skill = declared.name, self.skill.name
        described = declared.description or interface.description or f"Execute {name}"
        return Tool(
            id=tool_id(skill, name),
            name=wire_name(skill, name, declared=declared.source != "scripts"),
            skill=skill,
            description=clean(described),
            input_schema=interface.input_schema or UNTYPED,
            runs=runs,
            output_schema=declared.output_schema,
            effects=declared.effects or _effects(runs),
            timeout_ms=declared.timeout_ms or self._timeout_ms(runs),
            variables=tuple(sorted({v for v in declared.variables if not v.startswith(_OURS)})),
            origin=runs.file if isinstance(runs, Script) else self.skill.file,
            declared_in=declared.source,
            read_by="declaration",
            home=self.home,
            version=self.skill.metadata.version or "",
            allowed_tools=self._forbidding(declared),
            cwd=self._cwd(),
            needs=needs_of(runs),
        )

    def _timeout_ms(self, runs: Runs) -> int | None:
        """Return the time limit that the skill gives its programs, or else the default one."""
        usual = round(PROGRAM_SECONDS * 1000) if isinstance(runs, Binary | InlineScript) else None
        return self.timeout_ms or usual if isinstance(runs, Script) or usual else None

    def _forbidding(self, declared: Declared) -> tuple[str, ...] | None:
        """Return `allowed-tools` if it forbids a tool: only discovered scripts need Bash."""
        allowed = self.skill.metadata.allowed
        forbids = declared.source == "scripts" and allowed is not None
        return allowed if forbids and not any(map(is_bash, allowed or ())) else None

    def _cwd(self) -> Literal["workspace", "skill"]:
        found: Any = self.skill.metadata.frontmatter
        for key in ("metadata", "skillpouch", "cwd"):
            found = found.get(key) if isinstance(found, dict) else None
        return "skill" if found == "skill" else "workspace"

    def _script(self, script: ScriptFile, interface: Interface) -> Script:
        return Script(
            file=f"{self.home}/{script.path}",
            language=script.language,
            convention=interface.convention,
            plan=interface.plan,
            takes_nothing=interface.input_schema is _READS_NOTHING,
            reads_lines=interface.input_schema is _READS_LINES,
            shebang=script.shebang,
            dependencies=script.signature.dependencies,
        )

    def _examples(
        self, script: ScriptFile, plan: ArgvPlan | None, commands: list[Command]
    ) -> tuple[str, ...]:
        lines = usage_lines(self.body, script.path, commands, command_words(plan))
        for line in lines:
            misfit = usage_fits(line, plan, script.path) if plan is not None else ""
            if misfit:
                self.problems.append(
                    Problem(
                        path=self.skill.file,
                        code="usage-differs",
                        severity="info",
                        message=f"{script.path}: {misfit}",
                    )
                )
        return lines


def _effects(runs: Runs) -> tuple[Effect, ...]:
    """Return the effects that this kind of tool has in the worst case."""
    if isinstance(runs, Http):
        return ("read", "network") if runs.method in _READING_METHODS else ("write", "network")
    if isinstance(runs, Stub):
        return ("read",)
    return ("read", "write", "execute")
