"""All tools of one skill: declarations over discovered scripts, every decision on record."""

from dataclasses import dataclass, field, replace
from itertools import chain
from os.path import lexists
from pathlib import Path, PurePath

from skillpouch.declarations.allowed_tools import is_bash
from skillpouch.declarations.declared import Declared, Report
from skillpouch.declarations.discovered import DiscoveredScripts
from skillpouch.declarations.frontmatter import cut
from skillpouch.declarations.frontmatter_tools import read_frontmatter_tools
from skillpouch.declarations.manifest import MANIFEST_FILES, read_manifest
from skillpouch.declarations.script_paths import find_script
from skillpouch.declarations.scripts_folder import ScriptsFolder, Selection
from skillpouch.declarations.strict_yaml import lines_of
from skillpouch.declarations.tool_making import ToolMaker
from skillpouch.declarations.tools_json import read_tools_json
from skillpouch.errors import SkillUnreadableError
from skillpouch.problems import Problem, Severity
from skillpouch.skills import Skill
from skillpouch.tools import Tool
from skillpouch.untrusted_files import (
    DECLARATION_BYTES,
    CannotReadError,
    Stamp,
    read_inside,
    read_skill_text,
    stamp_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillTools:
    """The tools of a skill and what was noticed; `stamps` tell when to read them again."""

    tools: tuple[Tool, ...]
    problems: tuple[Problem, ...]
    stamps: dict[str, Stamp]


def read_skill_tools(skill: Skill) -> SkillTools:
    """Read every declaration and every script of a skill, without running anything."""
    try:
        return _Reading(skill).run()
    except OSError as error:  # the folder went away since it was found
        reason = (error.strerror or str(error)).lower()
        raise SkillUnreadableError(skill.file, reason) from None


@dataclass(slots=True)
class _Reading:
    skill: Skill
    problems: list[Problem] = field(default_factory=list)
    reported: list[list[Problem]] = field(default_factory=list)  # by the files that declare
    stamps: dict[str, Stamp] = field(default_factory=dict)
    unread: bool = False

    def run(self) -> SkillTools:
        home = str(self.skill.home)
        self.stamps[""] = stamp_of(self.skill.home.stat())
        body, frontmatter = self._skill_file()
        declared = self._settle([*self._manifest(), *self._tools_json(), *frontmatter])
        folder = ScriptsFolder(home=home, selection=Selection.of(self.skill.metadata.frontmatter))
        maker = ToolMaker(skill=self.skill, body=body, home=home)
        tools = self._declared_tools(declared, folder, maker)
        discovered = DiscoveredScripts(folder=folder, maker=maker)
        tools += discovered.tools(
            taken={tool.script for tool in declared if tool.script},
            names={tool.name for tool in declared},
        )
        self._check_restriction(tools)
        # What could not be read has no stamp to tell when it can be: such a skill is not kept.
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
            return "", []  # it was there when the skill was found; its scripts still are
        self.stamps[PurePath(self.skill.file).name] = content.stamp
        parts = cut(content.data)
        if self.skill.declarations_lost:
            return parts.body, []
        report = Report(
            self.skill.file,
            lambda: lines_of(parts.front or "", first_line=parts.first_line),
        )
        tools = self.skill.metadata.frontmatter.get("tools")
        self.reported.append(report.problems)
        return parts.body, read_frontmatter_tools(tools, report)

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
            # A folder that leads outside is reported once, when its scripts are looked for.
            if error.code != "absent" and (Path(path).is_symlink() or error.code != "outside"):
                self._report(path, f"declaration-{error.code}", "error", error.reason)
            self.unread = self.unread or lexists(path)
            return None
        self.stamps[name] = content.stamp
        return content.data

    def _settle(self, declared: list[Declared]) -> list[Declared]:
        """Of two declarations of one script or one name, the one of higher rank counts.

        `declared` comes in order of rank. What a manifest leaves unsaid about a script, a
        declaration of the same script may say.
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
                f"tool {tool.name!r} of {tool.source} gives way to {over.name!r} of {over.source}"
            )
            _report_at(tool, "declaration-replaced", "info", message)
        return list(kept.values())

    def _declared_tools(
        self, declared: list[Declared], folder: ScriptsFolder, maker: ToolMaker
    ) -> list[Tool]:
        tools: list[Tool] = []
        for tool in declared:
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
    """Fill in what a declaration leaves unsaid from another one of the same script."""
    return replace(
        tool,
        description=tool.description or other.description,
        input_schema=tool.input_schema or other.input_schema,
        output_schema=tool.output_schema or other.output_schema,
        timeout_ms=tool.timeout_ms or other.timeout_ms,
        effects=tool.effects or other.effects,
    )
