"""Collects all tools of one skill: those that files declare, and those found in scripts/."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from os.path import lexists
from pathlib import Path, PurePath, PurePosixPath
from posixpath import normpath
from typing import Any

from skillpouch.declarations.backends import not_provided
from skillpouch.declarations.declared import (
    SKILL_TIMEOUT,
    DeclarationError,
    Declared,
    Report,
    read_skill_timeout,
    report_long,
)
from skillpouch.declarations.frontmatter import cut
from skillpouch.declarations.plain_yaml import drop_control_characters
from skillpouch.declarations.scripts_folder import (
    ScriptFile,
    ScriptsFolder,
    Selection,
    judged_by_imports,
    reasons_to_drop,
)
from skillpouch.declarations.skill_md import is_bash
from skillpouch.declarations.skill_text import files_run
from skillpouch.declarations.strict_yaml import (
    YamlError,
    YamlPath,
    lines_of,
    load,
)
from skillpouch.declarations.tool_entries import declares_tool, read_entries
from skillpouch.declarations.tool_making import ToolMaker
from skillpouch.declarations.tools_json import read_tools_json
from skillpouch.errors import SkillUnreadableError
from skillpouch.problems import Problem, Severity
from skillpouch.signatures.shebang import EXTENSIONS
from skillpouch.skills import Skill
from skillpouch.tools import External, SkillTools, Tool, script_tool_name, short_name
from skillpouch.untrusted_files import (
    DECLARATION_BYTES,
    CannotReadError,
    Stamp,
    read_inside,
    read_skill_text,
    require_inside,
    stamp_of,
)

MANIFEST_FILES = ("manifest.yml", "manifest.yaml")


def read_manifest(path: str, raw: bytes) -> tuple[list[Declared], list[Problem]]:
    """Return the manifest's declaration of each script, with paths relative to the skill."""
    text = drop_control_characters(raw.decode("utf-8-sig", "replace"))
    report = Report(path, lambda: lines_of(text))
    try:
        document = load(text)
    except YamlError as error:
        return [], [_unreadable(path, error)]
    for key, line in document.repeated:
        message = f"{key!r} is given twice: the first counts"
        report.problems.append(
            Problem(path=path, code="duplicate-key", severity="warning", message=message, line=line)
        )
    entries = _entries(document.value)
    if entries is None:
        report.add("manifest-empty", "warning", "no list of tools under `tools`")
        return [], report.problems
    declared = read_entries(entries, "manifest", report, needs=_needs)
    return [replace(tool, script=_inside(tool.script)) for tool in declared], report.problems


def _entries(value: Any) -> list[tuple[YamlPath, Any]] | None:
    """Return each entry with its place; a list, or a mapping of names, under `tools`."""
    at: YamlPath = ()
    if isinstance(value, dict):
        key = "tools" if "tools" in value else "scripts"
        value, at = value.get(key), (key,)
    if isinstance(value, dict):
        named = {name: {"name": name, **_mapping(entry)} for name, entry in value.items()}
        return [((*at, name), entry) for name, entry in named.items()]
    if isinstance(value, list):
        return [((*at, number), entry) for number, entry in enumerate(value)]
    return None


def _needs(tool: Declared) -> str:
    return "" if tool.script else "names no script"


def _inside(script: str) -> str:
    return f"scripts/{script.removeprefix('./').removeprefix('scripts/')}"


def _unreadable(path: str, error: YamlError) -> Problem:
    return Problem(
        path=path, code="yaml-invalid", severity="error", message=error.message, line=error.line
    )


def _mapping(entry: Any) -> dict[str, Any]:
    return entry if isinstance(entry, dict) else {"script": entry}


@dataclass(slots=True, kw_only=True)
class DiscoveredScripts:
    """The scripts of one skill, minus those that a declaration names."""

    folder: ScriptsFolder
    maker: ToolMaker
    named: Mapping[str, int] = field(default_factory=dict)  # path → line of the body that runs it
    problems: list[Problem] = field(default_factory=list)

    def tools(self, *, taken: set[str], names: set[str]) -> list[Tool]:
        """Make the tools of every script whose path is not `taken`; `names` are in use."""
        found = [self.folder.read(path) for path in self.folder.paths()]
        scripts = judged_by_imports(script for script in found if script is not None)
        reasons = reasons_to_drop(scripts)
        used = set(names)
        tools: list[Tool] = []
        for script in scripts:
            if script.path in taken:
                continue
            if script.path in reasons and not self.folder.selection.includes(script.path):
                reason, line = reasons[script.path]
                self._report(script, "script-dropped", "info", f"no tool: {reason}", line)
                continue
            self._report_doubts(script)
            if script.path in self.named:
                message = f"{script.path} is a tool: this line runs it"
                self.maker.report("script-named", message, self.named[script.path])
            made = self.maker.discovered(self._free_name(script, used), script)
            used |= {short_name(tool.skill, tool.id) for tool in made}
            tools += made
        return tools

    def _free_name(self, script: ScriptFile, used: set[str]) -> str:
        """Return the script's name; a second script of this name gets its extension added."""
        name = script_tool_name(script.path)
        if used.isdisjoint(self._names(name, script)):
            return name
        longer = f"{name}-{PurePosixPath(script.path).suffix[1:].lower()}"
        while not used.isdisjoint(self._names(longer, script)):
            longer = f"{longer}-2"
        self._report(script, "tool-renamed", "info", f"tool {name!r} exists: called {longer!r}")
        return longer

    def _names(self, name: str, script: ScriptFile) -> list[str]:
        commands = [f"{name}.{command}" for command in script.signature.commands]
        return commands if commands and not script.signature.runs_alone else [*commands, name]

    def _report_doubts(self, script: ScriptFile) -> None:
        signature = script.signature
        if signature.uncertain:
            message = f"arguments are untyped: {signature.uncertain}"
            self._report(script, "signature-uncertain", "info", message, signature.uncertain_line)
        if signature.reads_input:
            message = "it asks a question on the terminal, and nobody will be there to answer"
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


_DECLARING = {"description", "url", "bin", "backend", "parameters", "inputSchema", "input_schema"}


def read_frontmatter_tools(tools: Any, report: Report) -> list[Declared]:
    """Return the tools declared under `tools:`; other entries are ignored, with a warning."""
    if tools is None or isinstance(tools, str):
        return []
    if isinstance(tools, dict):
        entries = _keyed(tools)
    elif isinstance(tools, list):
        entries = _listed(tools)
        # Strings, as in `tools: [Bash, Read]`, name tools of the host: no warning for these.
        tools = [entry for entry in tools if not isinstance(entry, str)]
    else:
        report.add(
            "tools-ignored", "warning", "`tools` is neither a list nor a mapping", ("tools",)
        )
        return []
    if len(entries) < len(tools):
        message = "entries of `tools` that describe no tool are ignored"
        report.add("tools-ignored", "warning", message, ("tools",))
    return read_entries(entries, "frontmatter", report)


def _listed(tools: list[Any]) -> list[tuple[YamlPath, Any]]:
    return [
        (("tools", number), entry)
        for number, entry in enumerate(tools)
        if not isinstance(entry, str) and declares_tool(entry)
    ]


def _keyed(tools: dict[str, Any]) -> list[tuple[YamlPath, Any]]:
    """Read `{name: {description: …}}` as a list of declarations."""
    return [
        (("tools", name), {"name": name, **entry})
        for name, entry in tools.items()
        if isinstance(entry, dict) and _DECLARING & entry.keys()
    ]


def find_script(home: str, written: str) -> str:
    """Return the path, relative to the skill, of the script that a declaration names."""
    if "\0" in written or "\\" in written:
        raise CannotReadError("invalid", "it is not a path with forward slashes")
    path = normpath(written)
    if path.startswith(("/", "..")) or path == ".":
        raise CannotReadError("outside", "it leads outside the skill")
    require_inside(f"{home}/{path}", home)
    if PurePosixPath(path).suffix.lower() not in EXTENSIONS:
        known = " ".join(EXTENSIONS)
        raise CannotReadError("language", f"its extension is not one of {known}")
    return path


def read_skill_tools(skill: Skill) -> SkillTools:
    """Read every declaration and every script of a skill, without running anything."""
    try:
        return _Reading(skill).run()
    except OSError as error:  # the folder was removed after it was found
        reason = (error.strerror or str(error)).lower()
        raise SkillUnreadableError(skill.file, reason) from None


@dataclass(slots=True)
class _Reading:
    skill: Skill
    problems: list[Problem] = field(default_factory=list)
    reported: list[list[Problem]] = field(default_factory=list)  # by the files that declare
    stamps: dict[str, Stamp] = field(default_factory=dict)
    unread: bool = False
    first_line: int = 1  # of the body, in SKILL.md
    timeout_ms: int | None = None  # what the skill declares for all its programs

    def run(self) -> SkillTools:
        home = str(self.skill.home)
        self.stamps[""] = stamp_of(self.skill.home.stat())
        body, frontmatter = self._skill_file()
        declared = self._settle([*self._manifest(), *self._tools_json(), *frontmatter])
        selection = Selection.of(self.skill.metadata.frontmatter)
        named = files_run(body, home)
        folder = ScriptsFolder(home=home, selection=selection, named=named.lines)
        folder.stamp_folders(named.folders)
        maker = ToolMaker(
            skill=self.skill,
            body=body,
            home=home,
            first_line=self.first_line,
            timeout_ms=self.timeout_ms,
        )
        tools = self._declared_tools(declared, folder, maker)
        discovered = DiscoveredScripts(folder=folder, maker=maker, named=named.lines)
        tools += discovered.tools(
            taken={tool.script for tool in declared if tool.script},
            names={tool.name for tool in declared},
        )
        self._check_restriction(tools)
        # A file that could not be read has no stamp that would show when it can be: without
        # stamps, the skill is not cached.
        is_whole = not self.unread and not folder.unread
        return SkillTools(
            tools=tuple(tools),
            problems=(
                *chain.from_iterable(self.reported),
                *self.problems,
                *folder.problems,
                *maker.problems,
                *discovered.problems,
            ),
            stamps=self.stamps | folder.stamps if is_whole else {},
        )

    def _skill_file(self) -> tuple[str, list[Declared]]:
        """Return the body, for its usage lines, and what the frontmatter declares."""
        try:
            content = read_skill_text(self.skill.file)
        except CannotReadError:
            return "", []  # it was removed after the skill was found; its scripts can still run
        self.stamps[PurePath(self.skill.file).name] = content.stamp
        parts = cut(content.data)
        self.first_line = parts.body_line
        if self.skill.declarations_lost:
            return parts.body, []
        report = Report(
            self.skill.file,
            lambda: lines_of(parts.front or "", first_line=parts.first_line),
        )
        tools = self.skill.metadata.frontmatter.get("tools")
        self.reported.append(report.problems)
        self._read_timeout(report)
        return parts.body, read_frontmatter_tools(tools, report)

    def _read_timeout(self, report: Report) -> None:
        try:
            self.timeout_ms = read_skill_timeout(self.skill.metadata.frontmatter)
        except DeclarationError as error:
            report.lost(error, SKILL_TIMEOUT[:-1])
        report_long(self.timeout_ms, "it", report, SKILL_TIMEOUT)

    def _tools_json(self) -> list[Declared]:
        raw = self._file("tools.json")
        if raw is None:
            return []
        declared, problems = read_tools_json(f"{self.skill.home}/tools.json", raw)
        self.reported.append(problems)
        return declared

    def _manifest(self) -> list[Declared]:
        for name in MANIFEST_FILES:
            raw = self._file(f"scripts/{name}")
            if raw is not None:
                declared, problems = read_manifest(f"{self.skill.home}/scripts/{name}", raw)
                self.reported.append(problems)
                return declared
        return []

    def _file(self, name: str) -> bytes | None:
        path = f"{self.skill.home}/{name}"
        try:
            content = read_inside(path, str(self.skill.home), DECLARATION_BYTES)
        except CannotReadError as error:
            # A scripts/ that is a link to the outside is reported once, when it is searched.
            if error.code != "absent" and (Path(path).is_symlink() or error.code != "outside"):
                self._report(path, f"declaration-{error.code}", "error", error.reason)
            self.unread = self.unread or lexists(path)
            return None
        self.stamps[name] = content.stamp
        return content.data

    def _settle(self, declared: list[Declared]) -> list[Declared]:
        """Of two declarations of one script or one name, the one of higher rank counts.

        `declared` is in order of rank, the highest first. What a manifest does not declare about a
        script is taken from another declaration of the same script.
        """
        kept: dict[str, Declared] = {}
        of_manifest = {tool.script: tool.name for tool in declared if tool.source == "manifest"}
        for tool in declared:
            name = of_manifest.get(tool.script) if tool.source != "manifest" else None
            over = kept.get(name or tool.name)
            if over is None:
                kept[tool.name] = tool
                continue
            if over.script == tool.script:
                kept[over.name] = _completed(over, tool)
            message = (
                f"tool {tool.name!r} of {tool.source} is replaced by {over.name!r} of {over.source}"
            )
            _report_at(tool, "declaration-replaced", "info", message)
        return list(kept.values())

    def _declared_tools(
        self, declared: list[Declared], folder: ScriptsFolder, maker: ToolMaker
    ) -> list[Tool]:
        tools: list[Tool] = []
        for tool in declared:
            if isinstance(tool.runs, External) and (lacking := not_provided(tool.runs)):
                _report_at(tool, "backend-not-provided", "error", f"tool {tool.name!r}: {lacking}")
                self.unread = True  # installing the package changes no file of the skill
            if not tool.script or tool.runs is not None:
                tools.append(maker.without_script(tool))
                continue
            try:
                path = find_script(folder.home, tool.script)
            except CannotReadError as error:
                message = f"no tool {tool.name!r}: script {tool.script!r}: {error.reason}"
                _report_at(tool, f"script-{error.code}", "error", message)
                self.unread = True
                continue
            script = folder.read(path)
            if script is not None:
                tools.append(maker.declared(tool, script))
        return tools

    def _check_restriction(self, tools: list[Tool]) -> None:
        allowed = self.skill.metadata.allowed
        discovered = [tool.id for tool in tools if tool.declared_in == "scripts"]
        if allowed is None or not discovered or any(is_bash(item) for item in allowed):
            return
        message = (
            f"`allowed-tools` leaves out Bash, so {len(discovered)} discovered script(s) will be "
            f"refused: {', '.join(discovered[:5])}"
        )
        self._report(self.skill.file, "scripts-restricted", "warning", message)

    def _report(self, path: str, code: str, severity: Severity, message: str) -> None:
        self.problems.append(Problem(path=path, code=code, severity=severity, message=message))


def _report_at(tool: Declared, code: str, severity: Severity, message: str) -> None:
    assert tool.report is not None
    tool.report(code, severity, message)


def _completed(tool: Declared, other: Declared) -> Declared:
    """Fill in the fields that a declaration lacks from another one of the same script."""
    return replace(
        tool,
        description=tool.description or other.description,
        input_schema=tool.input_schema or other.input_schema,
        output_schema=tool.output_schema or other.output_schema,
        timeout_ms=tool.timeout_ms or other.timeout_ms,
        effects=tool.effects or other.effects,
    )
