"""Tools that nobody declared: the scripts of a skill, named, typed, or dropped on evidence."""

from dataclasses import dataclass, field
from pathlib import PurePosixPath

from skillpouch.declarations.evidence import reasons_to_drop
from skillpouch.declarations.scripts_folder import ScriptFile, ScriptsFolder
from skillpouch.declarations.tool_making import ToolMaker
from skillpouch.problems import Problem, Severity
from skillpouch.registry.names import script_tool_name
from skillpouch.tools import Tool


@dataclass(slots=True, kw_only=True)
class DiscoveredScripts:
    """The scripts of one skill, minus those that a declaration names."""

    folder: ScriptsFolder
    maker: ToolMaker
    problems: list[Problem] = field(default_factory=list)

    def tools(self, *, taken: set[str], names: set[str]) -> list[Tool]:
        """Make the tools of every script whose path is not `taken`; `names` are in use."""
        found = [self.folder.read(path) for path in self.folder.paths()]
        scripts = [script for script in found if script is not None]
        reasons = reasons_to_drop(scripts)
        used = set(names)
        tools: list[Tool] = []
        for script in scripts:
            if script.path in taken:
                continue
            if script.path in reasons and not self.folder.selection.includes(script.path):
                self._report(script, "script-dropped", "info", f"no tool: {reasons[script.path]}")
                continue
            self._report_doubts(script)
            made = self.maker.discovered(self._free_name(script, used), script)
            used |= {tool.id.removeprefix(f"{tool.skill}.") for tool in made}
            tools += made
        return tools

    def _free_name(self, script: ScriptFile, used: set[str]) -> str:
        """Return the script's name; a second one of that name gets its extension added."""
        name = script_tool_name(script.path)
        if used.isdisjoint(self._names(name, script)):
            return name
        longer = f"{name}-{PurePosixPath(script.path).suffix[1:].lower()}"
        while not used.isdisjoint(self._names(longer, script)):
            longer = f"{longer}-2"
        self._report(script, "tool-renamed", "info", f"tool {name!r} exists: called {longer!r}")
        return longer

    def _names(self, name: str, script: ScriptFile) -> list[str]:
        return [f"{name}.{command}" for command in script.signature.commands] or [name]

    def _report_doubts(self, script: ScriptFile) -> None:
        signature = script.signature
        if signature.uncertain:
            message = f"arguments are untyped: {signature.uncertain}"
            self._report(script, "signature-uncertain", "info", message, signature.uncertain_line)
        if signature.reads_input:
            message = "it asks a person a question, and nobody will be there to answer"
            self._report(script, "asks-for-input", "warning", message)

    def _report(
        self,
        script: ScriptFile,
        code: str,
        severity: Severity,
        message: str,
        line: int | None = None,
    ) -> None:
        path = f"{self.folder.home}/{script.path}"
        self.problems.append(
            Problem(path=path, code=code, severity=severity, message=message, line=line)
        )
