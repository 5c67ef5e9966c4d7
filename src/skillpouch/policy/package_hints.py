"""Notes for a failed call on the packages that it lacked, as its skill names them."""

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from shutil import which
from typing import NamedTuple

from skillpouch.calls import ToolCall
from skillpouch.environment import SYSTEM_PATH, home_directory, search_path
from skillpouch.needs import Need
from skillpouch.policy.authorize import Permit
from skillpouch.policy.file_hints import as_command, last_words
from skillpouch.results import ToolResult
from skillpouch.signatures.shebang import EXTENSIONS, lacks_typescript
from skillpouch.skills import Skill
from skillpouch.tools import Script, Tool
from skillpouch.trust.call_needs import is_importable, skill_of
from skillpouch.trust.errors import trust_command
from skillpouch.trust.grant import covers_package, covers_path, split_package
from skillpouch.trust.inferred_packages import Proposal
from skillpouch.trust.package_names import (
    called_packages,
    installed_in,
    known_package,
    packages_with_program,
)
from skillpouch.trust.requested_packages import (
    fetched_by_code,
    folder_asks,
    package_needs,
    propose_packages,
    texts_of,
)

# As Python says it, as pandas does of its optional parts, and as Node does.
_NO_MODULE = re.compile(
    r"(?:No module named ['\"]?|`Import |Missing optional dependency ['\"])([\w.]+)"
    r"|Cannot find (?:package|module) ['\"]([^'\"\s]{1,200})"
)
# How bash, dash, Python, Node, Ruby and Perl report that a program was not found, and zsh, as many
# scripts do in words of their own.
_NO_PROGRAM = re.compile(
    r"(?:^|: )([\w.+-]+): (?:command )?not found$"
    r"|\b[Cc]ommand not found: ([\w.+-]+)"
    r"|in _execute_child\n(?:.{0,200}\n){1,3}?FileNotFoundError: .{0,80}: '([^'\n]+)'$"
    r"|spawn(?:Sync)? (\S+) ENOENT"
    r"|in `(?:exec|spawn|`|system)': No such file or directory - ([\w.+-]+)",
    re.MULTILINE,
)
# What people tell a user to run: `pip install lamp`, `uv pip install "lamp>=2"`, `npm i lamp`.
_ADVICE = re.compile(
    r"\b(?:pip3?|uv(?:[ ](?:pip|tool))?|pipx|poetry|conda|npm|pnpm|yarn|bun)[ ](?:install|add|i)[ ]"
    r"([^\n;&|`]{1,200})"
)
_WORD = re.compile(r"[('\"]*((?:@[\w.-]+/)?[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)")
# "the lamp library is not installed": in words of its own, of a package that it can do without.
_INSTALLING = re.compile(r"\binstall(?:ed)?\b", re.IGNORECASE)
_WORDS = re.compile(r"[A-Za-z][\w.-]*\w")
_FRAME = re.compile(r"^\s*File \"([^\"\n]+)\", line \d", re.MULTILINE)
_NO_ADVICE = (
    "note: its output tells to install packages that no file of the skill declares or names, so"
    " none is proposed: what a program prints is no reason to install anything"
)


def notes_on_packages(
    result: ToolResult, call: ToolCall, permit: Permit, roots: Sequence[str], tools: Sequence[Tool]
) -> list[str]:
    """Name the packages that a script lacked: those that its own code imports, and no others.

    What it printed only tells that something is missing, and which of its optional imports that is.
    Its output is untrusted: a name that is only there may be one that an attacker registered.
    """
    said = last_words(result)
    missing, advice = _NO_MODULE.findall(said), _ADVICE.findall(said)
    programs = list(programs_missed(said))
    went_on = result.outcome == "ok"  # without an optional part: more is not missing
    if went_on:
        advice, programs = [], []
    skill = skill_of(call.tool)
    folders = _folders_beside(skill, tools, permit) if skill else []
    # A script may look for the folder before it imports anything.
    if folders := [need for need in folders if missing or need.value in said]:
        return [_note_on_folders(call, folders, roots)]
    hinted = _words_on_installing(said)
    if not missing and not advice and not programs and not hinted:
        return []
    named = _named(missing, advice) | {_plain(name) for name in programs}
    given = permit.access.packages
    found = propose_packages(skill, tools) if skill else ()
    missed = _Missed(named, hinted, is_import=bool(missing or advice), went_on=went_on)
    lacking = [
        each for each in found if missed.has(each, given) and not _is_given(each.package, given)
    ]
    told = _told_by_files(call, named, lacking)
    told = [name for name in told if not _is_given(name, given)]
    brought = [name for name in _bringing(programs, call) if not _is_given(name, (*given, *told))]
    if lacking or told or brought:
        # A package that the files name takes the place of one that is only guessed from an import.
        lacking = [each for each in lacking if not any(_is_guess_for(name, each) for name in told)]
        lacking += [] if given else _had_so_far(found, lacking)
        return [_proposal(call, lacking, told, brought, roots)]
    return _notes_on_others(said, call, given, advice, named, roots)


def _notes_on_others(
    said: str,
    call: ToolCall,
    given: Sequence[str],
    advice: Sequence[str],
    named: AbstractSet[str],
    roots: Sequence[str],
) -> list[str]:
    """Tell of what was missed and is neither imported by the skill nor told by its files."""
    missing = _NO_MODULE.findall(said)
    if module := _module_run(missing, call):
        return [_note_on_module(call, module, roots)]
    modules = [module for module, _ in missing if module]
    # The last file in a traceback is where the import stands.
    if given and modules and any("/site-packages/" in each for each in _FRAME.findall(said)[-1:]):
        return [_note_on_undeclared(call, modules[-1], roots)]
    is_known = any(_is_given(name, given) or _is_given(f"npm:{name}", given) for name in named)
    return [_NO_ADVICE] if advice and not is_known else []


def _words_on_installing(said: str) -> set[str]:
    lines = (line for line in said.splitlines() if _INSTALLING.search(line))
    return {_plain(word) for line in lines for word in _WORDS.findall(line)}


class _Missed(NamedTuple):
    """What a call said of packages: names of what it missed, and words of lines on installing."""

    named: AbstractSet[str]
    hinted: AbstractSet[str]
    is_import: bool
    went_on: bool

    def has(self, each: Proposal, given: Sequence[str]) -> bool:
        """Tell whether it may be missed; of a call that went on, only what it can do without."""
        names = _names_of(each)
        if self.went_on:
            is_lacking = each.optional and (given or not is_importable(each))
            return bool(self.named & names or (self.hinted & names and is_lacking))
        is_needed = self.is_import and not each.optional
        return is_needed or not names.isdisjoint(self.named | self.hinted)


def _is_given(name: str, given: Iterable[str]) -> bool:
    return any(covers_package(package, name) for package in given)


def _had_so_far(found: Iterable[Proposal], lacking: Sequence[Proposal]) -> list[Proposal]:
    """Return other packages that a script finds as long as it has none of its own.

    It finds them in the environment of Skillpouch, and would lose them by the first grant.
    """
    others = (each for each in found if each not in lacking)
    return [each for each in others if is_importable(each)]


def _bringing(programs: Iterable[str], call: ToolCall) -> Iterator[str]:
    """Yield the packages of programs that were missed and that files of the skill name.

    Only those that are installed beside Skillpouch: a package with the name of a program may be
    anybody's.
    """
    for program in dict.fromkeys(programs):
        if packages := packages_with_program(program):
            named = re.compile(rf"(?<![\w.-]){re.escape(program)}(?![\w-])")
            texts = texts_of(call.tool.home).values() if call.tool.home else ()
            yield from packages if any(map(named.search, texts)) else ()


def _proposal(
    call: ToolCall,
    lacking: Sequence[Proposal],
    told: Sequence[str],
    brought: Sequence[str],
    roots: Sequence[str],
) -> str:
    needs = [*package_needs(replace(each, optional=False) for each in lacking)]
    needs += [Need(kind="packages", value=name) for name in (*told, *brought)]
    command = trust_command(call.tool.skill, needs, roots=roots)
    names = ", ".join(_described(each) for each in lacking)
    reasons = [f"it imports packages that no file declares ({names})"] if lacking else []
    reasons += [f"its files tell to install {', '.join(told)}"] if told else []
    reasons += [f"it starts programs of packages ({', '.join(brought)})"] if brought else []
    return f"note: {', and '.join(reasons)}; the user can grant it: `{command}`"


def _note_on_module(call: ToolCall, module: str, roots: Sequence[str]) -> str:
    known = known_package(module)
    needs = [Need(kind="packages", value=known or "NAME")]
    command = trust_command(call.tool.skill, needs, roots=roots)
    which = f"of the package {known}" if known else "of a package that no file of it names"
    return f"note: it runs the module {module}, {which}; the user can grant it: `{command}`"


def _note_on_undeclared(call: ToolCall, module: str, roots: Sequence[str]) -> str:
    """Name the package of a module that only packages of the call import, as far as it is known."""
    known = known_package(module)
    needs = [Need(kind="packages", value=known or "NAME")]
    command = trust_command(call.tool.skill, needs, roots=roots)
    told = f"note: a package of it imports {module}, and does not declare what brings it"
    package = known or "the package, if it is known"
    return f"{told}; the user can grant {package}: `{command}`"


def programs_missed(output: str) -> Iterator[str]:
    """Yield the programs that an output reports as not found."""
    for match in _NO_PROGRAM.finditer(output):
        if "/" not in (name := match[match.lastindex or 0]):
            yield name


_LOOKED_FOR = re.compile(
    r"\bwhich\(\s*['\"]([\w.+-]+)['\"]|\b(?:command -v|which|hash|type -P)[ ]+['\"]?([\w.+-]+)"
)


def note_on_own_programs(
    result: ToolResult, call: ToolCall, permit: Permit, roots: Sequence[str]
) -> list[str]:
    """Name the grant of a program that the user has, and that tools do not see.

    One that was missed: the output says so, or the code looks for it before it starts it.
    """
    if call.is_unconfined or not call.tool.home:
        return []
    texts = texts_of(call.tool.home)
    code = [text for path, text in texts.items() if Path(path).suffix in EXTENSIONS]
    looked = [one or two for text in code for one, two in _LOOKED_FOR.findall(text)]
    said = last_words(result)
    names = [*programs_missed(said), *(name for name in looked if name.lower() in said.lower())]
    named = (name for name in dict.fromkeys(names) if any(name in text for text in texts.values()))
    given = list(map(str, permit.access.readable))
    for name in islice(named, _MOST_PROGRAMS):
        path, paths = _elsewhere(name)
        if paths and not all(any(covers_path(g, each) for g in given) for each in paths):
            needs = [*(Need(kind="read", value=each) for each in paths), *as_command(call)]
            command = trust_command(call.tool.skill, needs, roots=roots)
            told = f"note: {name} is {path} on this machine, where tools see nothing"
            return [f"{told}; the user can grant it: `{command}`"]
    return []


def _elsewhere(name: str) -> tuple[str, list[str]]:
    """Return the program of a name that only the user finds, and what a tool has to see of it."""
    found = "" if which(name, path=SYSTEM_PATH) else which(name, path=search_path()) or ""
    if not found.startswith("/") or Path(sys.executable).parent == Path(found).parent:
        return "", []
    real, home = os.path.realpath(found), home_directory()
    if real == found:
        return found, [found]
    # `~/.npm/bin/x` leads to `~/.npm/lib/x/cli.js`; `~/.local/bin/x` to `~/.local/share/x/bin/x`.
    top = os.path.commonpath((found, real))
    wide = {"/", *map(str, (home, *home.parents, home / ".local") if home else ())}
    if top not in wide:
        return found, [top]
    folder = Path(real).parent
    return found, [str(folder.parent)] if folder.name == "bin" and Path(real).name == name else []


def _module_run(missing: Iterable[tuple[str, str]], call: ToolCall) -> str:
    """Return a module that was missed and that code of the skill runs, by `python -m`."""
    texts = texts_of(call.tool.home) if call.tool.home else {}
    code = [text for path, text in texts.items() if Path(path).suffix in EXTENSIONS]
    own = {part.partition(".")[0] for path in texts for part in path.split("/")}
    for module in dict.fromkeys(module for module, _ in missing if module):
        run = re.compile(rf"-m['\",\s]+{re.escape(module)}(?![\w.])")
        if module.partition(".")[0] not in own and any(map(run.search, code)):
            return module
    return ""


def _folders_beside(skill: Skill, tools: Sequence[Tool], permit: Permit) -> list[Need]:
    given = set(map(str, permit.access.readable))
    return [need for need in folder_asks(skill, tools) if need.value not in given]


def _note_on_folders(call: ToolCall, folders: Sequence[Need], roots: Sequence[str]) -> str:
    command = trust_command(call.tool.skill, [*folders, *as_command(call)], roots=roots)
    where = ", ".join(need.value for need in folders)
    note = f"note: it imports modules of {where}, which lies outside its skill"
    return f"{note}; the user can let it read that: `{command}`"


def _told_by_files(
    call: ToolCall, named: AbstractSet[str], lacking: Sequence[Proposal]
) -> list[str]:
    """Return the packages that files of the skill tell to install, of those that were missed.

    Its output says which are missed: by their names, or by an import with such a name. What the
    files say is under the digest of the skill, as its imports are.
    """
    texts = texts_of(call.tool.home).values() if call.tool.home else ()
    told: dict[str, str] = {}
    for package in chain.from_iterable(
        (*installed_in(text), *called_packages(text)) for text in texts
    ):
        told.setdefault(_plain(package), package)
    proposed = {_plain(each.package) for each in lacking}
    return [
        package
        for name, package in sorted(told.items())
        if name not in proposed
        if name in named or any(_is_guess_for(package, each) for each in lacking)
    ]


def _plain(package: str) -> str:
    return re.sub(r"[_.]", "-", split_package(package)[0].removeprefix("npm:")).lower()


def _is_guess_for(package: str, proposal: Proposal) -> bool:
    """Tell whether a package may be what a proposal guesses: `lamp-sdk`, for `import lamp`."""
    is_npm = package.startswith("npm:")
    if proposal.confidence != "guess" or is_npm != proposal.package.startswith("npm:"):
        return False
    return _plain(proposal.package) in _plain(package).split("-")


def _named(missing: Iterable[tuple[str, str]], advice: Iterable[str]) -> set[str]:
    """Return the names of modules and packages in the words of a script, in lower case."""
    words = [_WORD.match(word) for text in advice for word in text.split()]
    packages = [re.sub(r"[_.]", "-", found[1]) for found in words if found]
    modules = [python.partition(".")[0] or node for python, node in missing]
    return {name.lower().replace("_", "-") for name in (*packages, *modules) if name}


def _names_of(proposal: Proposal) -> set[str]:
    name = split_package(proposal.package)[0].removeprefix("npm:")
    top = proposal.imported.partition(".")[0]
    return {name.lower(), top.lower().replace("_", "-"), proposal.imported.lower()}


def _described(proposal: Proposal) -> str:
    return f"{proposal.package}, a guess" if proposal.confidence == "guess" else proposal.package


_PATH = re.compile(r"(?:[\w.+@-]+/)*[\w.+@-]+", re.ASCII)
_MOST_PATHS = 200
_MOST_PROGRAMS = 20


def files_named(command: str, home: str) -> Iterator[str]:
    """Yield the files of a skill that a command names, by their paths in the skill."""
    for found in islice(_PATH.finditer(command), _MOST_PATHS):
        parts = [part for part in found[0].split("/") if part != "."]
        inside = ["/".join(parts[start:]) for start in range(max(len(parts) - 1, 1))]
        # The shell finds a script by its name alone, too.
        inside += [f"scripts/{parts[0]}"] if len(parts) == 1 else []
        if ".." not in parts:
            yield from islice((each for each in inside if Path(home, each).is_file()), 1)


def scripts_named(call: ToolCall) -> Iterator[Tool]:
    """Yield a tool for each script of the skill in a command: its imports count, as for any."""
    for file in dict.fromkeys(files_named(call.arguments["command"], call.tool.home)):
        language = EXTENSIONS.get(Path(file).suffix)
        if language:
            path = f"{call.tool.home}/{file}"
            yield replace(call.tool, runs=Script(file=path, language=language, convention="stdin"))


NOT_FETCHED = "nothing is fetched here"  # what the shell of a skill prints
_RUNNERS = {"npx": "npm:", "bunx": "npm:", "uvx": "", "pipx": ""}
_INSTALLERS = re.compile(r"\b(?:uv )?pip3? install((?: [^\s;&|]+)+)")


def notes_on_fetching(result: ToolResult, call: ToolCall, roots: Sequence[str]) -> list[str]:
    """Name the packages that a command wanted to fetch, by its own words and not by its output."""
    if NOT_FETCHED not in result.stderr:
        return []
    command, said = call.arguments["command"], result.stderr
    names = [f"{prefix}{name}" for prefix, name in _fetched(command) if name and name in said]
    needs = [Need(kind="packages", value=name) for name in dict.fromkeys(names)]
    if not needs:
        return []
    granting = trust_command(call.tool.skill, needs, roots=roots)
    listed = ", ".join(need.value for need in needs)
    return [f"note: {listed} was not granted to it; the user can grant it: `{granting}`"]


def _fetched(command: str) -> Iterator[tuple[str, str]]:
    for runner, name in re.findall(r"\b(npx|bunx|uvx|pipx)((?: -?[^\s;&|]+)+)", command):
        words = [word for word in name.split() if not word.startswith("-") and word != "run"]
        if words:
            yield _RUNNERS[runner], re.sub(r"(?<=.)@.*", "", words[0])
    for name in re.findall(r"\buv run(?: -\S+)* ([\w.-]+)", command):
        yield "", name
    for names in _INSTALLERS.findall(command):
        yield from (("", split_package(word.strip("'\""))[0]) for word in names.split())


def note_on_installing(
    call: ToolCall, permit: Permit, roots: Sequence[str], hosts: Sequence[str] = ()
) -> list[str]:
    """Name what the code of a call installs or fetches by itself, if it does."""
    installed, run = fetched_by_code(call.tool)
    if not installed and not run:
        return []
    given = permit.access.packages
    needs = [
        Need(kind="packages", value=name)
        for name in installed
        if not any(covers_package(package, name) for package in given)
    ]
    ways = [needs] if needs else []
    ways.append([Need(kind="host", value=host) for host in hosts or ("HOST",)])
    commands = (trust_command(call.tool.skill, way, roots=roots) for way in ways)
    asked = "the packages, or the host of their registry" if needs else "the host of its registry"
    runs = ", ".join(f"`{words}`" for words in dict.fromkeys((*installed.values(), *run)))
    said = f"note: its code runs {runs}, and it was not granted any network; the user can grant"
    return [f"{said} {asked}: {' or '.join(f'`{command}`' for command in commands)}"]


_TOP_LEVEL_AWAIT = re.compile(r"^(?:(?:export )?(?:const|let|var) [^=\n]+= )?await ", re.MULTILINE)


def _is_refused_by_tsx(path: str, texts: Mapping[str, str]) -> bool:
    """Tell whether tsx would make CommonJS of a script, in which there is no top-level await."""
    manifests = (text for name, text in texts.items() if Path(name).name == "package.json")
    is_module = any(re.search(r'"type"\s*:\s*"module"', text) for text in manifests)
    return not is_module and _TOP_LEVEL_AWAIT.search(texts.get(path, "")) is not None


def note_on_typescript(
    result: ToolResult, call: ToolCall, permit: Permit, roots: Sequence[str]
) -> list[str]:
    """Name the package with which a Node that is too old runs a script in TypeScript."""
    runs = call.tool.runs
    if not isinstance(runs, Script) or runs.language != "typescript":
        return []
    if not lacks_typescript(result.stderr, "typescript"):
        return []
    if any(covers_package(package, "npm:tsx") for package in permit.access.packages):
        return []
    if _is_refused_by_tsx(os.path.relpath(runs.file, call.tool.home), texts_of(call.tool.home)):
        return []
    needs = [Need(kind="packages", value="npm:tsx")]
    command = trust_command(call.tool.skill, needs, roots=roots)
    return [f"note: the package tsx runs it on this Node; the user can grant it: `{command}`"]
