"""Notes on what a call missed of its user's: files and folders, its HOME, variables."""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from skillpouch.calls import ToolCall
from skillpouch.environment import base_environment, home_directory, is_set, variable_names
from skillpouch.execution.package_files import changed_files
from skillpouch.needs import Need, NeedKind
from skillpouch.policy.authorize import Permit
from skillpouch.results import ToolResult
from skillpouch.secrets.shapes import is_named_like_a_secret
from skillpouch.signatures.shebang import EXTENSIONS
from skillpouch.tools import BuiltIn, Script, Tool
from skillpouch.trust.errors import GrantRefusedError, trust_command
from skillpouch.trust.grant import covers_package, covers_path, split_package
from skillpouch.trust.grantable import grantable
from skillpouch.trust.granted_packages import declared_anywhere
from skillpouch.trust.package_names import read_by_packages, texts_of_package
from skillpouch.trust.requested import (
    has_plain_default,
    home_paths_in,
    kind_of,
    needs_no_grant,
    never_proposed,
    settings_withheld,
    withheld,
)
from skillpouch.trust.requested_packages import (
    home_paths_of,
    sources_of,
    texts_of,
    variables_read,
    variables_without_default,
    with_variables,
)
from skillpouch.workspace.read_only import run_later_named

_LONGEST_SEARCHED = 20_000  # characters at the end of each stream
# How programs report EXDEV: overlayfs without redirects answers so to rename(2) of a folder that
# existed before, see "redirect_dir" in Documentation/filesystems/overlayfs.rst.
_NO_RENAME = re.compile(r"[Ii]nvalid cross-device link|EXDEV|cross-device link not permitted")
_MOST_PATHS = 5
# How programs report EROFS, with the path before or after it.
_READ_ONLY = re.compile(
    r"[\s'\"\u2018`(](/[^\s'\"\u2019`:]+)['\"\u2019`]?: [Rr]ead-only file system"
    r"|(?:[Rr]ead-only file system|EROFS)[^\n/]{0,80}[\s'\"\u2018`](/[^\s'\"\u2019`:]+)"
)
# How programs report that they found nothing, in words of their own; not a command or a module.
_FINDS_NOTHING = re.compile(
    r"^(?![^\n]*(?:command|module|package)s? not found)[^\n]*"
    r"(?:\b(?:no|not|cannot|missing)\b[^\n]{0,80}\b(?:found|exist|such)|doesn't exist)",
    re.IGNORECASE | re.MULTILINE,
)
_OWN_HOME = (
    "note: its HOME is a folder of its own, in which nothing of yours is; a path of your home that"
    " the user grants (`--read`) is found there"
)
_LOST_HOME = "note: its HOME is a folder of its own, which is gone now: what it wrote there is lost"
_IN_ETC = re.compile(r"/etc/[\w./+@-]*\w")


def last_words(result: ToolResult) -> str:
    """Return the end of what a call printed, in which notes look for messages."""
    return f"{result.stdout[-_LONGEST_SEARCHED:]}\n{result.stderr[-_LONGEST_SEARCHED:]}"


def is_command(call: ToolCall) -> bool:
    """Tell whether an agent wrote what ran, for a skill."""
    return isinstance(call.tool.runs, BuiltIn) and bool(call.tool.home)


def as_command(call: ToolCall) -> list[Need]:
    """Return what a grant must name besides, if an agent wrote what ran."""
    return [Need(kind="commands")] if is_command(call) else []


def note_on_changed_files(
    result: ToolResult, call: ToolCall, permit: Permit, roots: Sequence[str]
) -> list[str]:
    """Name the grant of a call that missed a file in /etc that was changed on this machine."""
    named = set(_IN_ETC.findall(f"{result.stdout}\n{result.stderr}"))
    if not named or call.is_unconfined:
        return []
    missed = sorted(named & changed_files() - set(map(str, permit.access.readable)))
    if not missed:
        return []
    needs = [Need(kind="read", value=path) for path in missed] + as_command(call)
    command = trust_command(call.tool.skill, needs, roots=roots)
    verb = "was" if len(missed) == 1 else "were"
    said = f"note: {', '.join(missed)} {verb} changed on this machine, so tools do not see it"
    return [f"{said}; the user can grant it: `{command}`"]


def note_on_renames(result: ToolResult, call: ToolCall) -> list[str]:
    """Name the way of writing in which folders can be renamed, if that is what failed."""
    is_layered = "(overlay)" in result.protections.get("writes", "")
    if not is_layered or not _NO_RENAME.search(last_words(result)):
        return []
    tools = json.dumps([call.tool.id], ensure_ascii=False)
    rule = f'`[[limits]]` with `tools = {tools}` and `writes = "direct"` in policy.toml'
    told = "note: a folder that existed cannot be renamed in one step where changes can be undone"
    return [f"{told} (`mv` copies it); the user can let it write directly: {rule}"]


def note_on_run_later(result: ToolResult, call: ToolCall, roots: Sequence[str]) -> list[str]:
    """Name the grant of a call that wanted to write what other programs run, such as git hooks."""
    paths = [] if call.is_unconfined else run_later_named(call, last_words(result))
    if not paths or not call.tool.home:
        return []
    needs = [*(Need(kind="write", value=path) for path in paths), *as_command(call)]
    command = trust_command(call.tool.skill, needs, roots=roots)
    are = "is" if len(paths) == 1 else "are"
    told = f"note: {' and '.join(paths)} {are} read-only for tools, because other programs run what"
    return [f"{told} is there, unconfined; the user can let it write that: `{command}`"]


def notes_on_own_folder(
    result: ToolResult, call: ToolCall, permit: Permit, roots: Sequence[str]
) -> list[str]:
    """Name the grant of a call that wrote, or wanted to write, in the folder of its skill."""
    home = call.tool.place
    if not home or call.is_unconfined:
        return []
    if is_command(call):
        return _note_on_environment(result, call, permit, roots)
    dropped = [path for path in call.dropped if _is_named(path, home)][:_MOST_PATHS]
    notes = []
    if dropped:
        told = f"note: it made {', '.join(dropped)} in its own folder, which was removed afterwards"
        command = _keeping(dropped, call, roots)
        notes.append(f"{told}; the user can let it keep that: `{command}`")
    said = last_words(result)
    ended = _READ_ONLY.findall(said)
    made = {_entry_made(before or after, (home, call.tool.home)) for before, after in ended} - {""}
    named = sorted(path for path in made if _is_named(path, home))[:_MOST_PATHS]
    # An entry that no file names, such as one with a number in it, is not to be kept.
    around = {str(Path(path).parent) for path in made} - {*permit.access.own_folder}
    if named or around:
        told = "note: it wanted to write in the folder of its own skill, whose files never change"
        command = _keeping(named or sorted(around), call, roots)
        notes.append(f"{told}; the user can let it write beside them: `{command}`")
    elif not result.is_error or run_later_named(call, said):
        pass
    elif not ended and "ead-only file system" in said:
        told = "note: if what it could not write lies in the folder of its own skill, the user can"
        command = _keeping([_folder_of_script(call)], call, roots)
        notes.append(f"{told} let it write beside the files there: `{command}`")
    return notes


def _note_on_environment(
    result: ToolResult, call: ToolCall, permit: Permit, roots: Sequence[str]
) -> list[str]:
    """Say that a command needs no environment in the folder of the skill, if it wanted to make one.

    The files of the skill tell that it is one: they name the programs in it.
    """
    homes, ended = (call.tool.place, call.tool.home), _READ_ONLY.findall(last_words(result))
    made = [_entry_made(before or after, homes) for before, after in ended]
    texts = list(texts_of(call.tool.home).values()) if any(made) else []
    named = [each for each in made if each and any(_has_programs(each, text) for text in texts)]
    if not named:
        return []
    told = f"note: {named[0]} cannot be made in the folder of the skill, and is not needed: a"
    told += f" command that runs {named[0]}/bin/python has the packages that were granted"
    given = permit.access.packages
    lacked = [
        Need(kind="packages", value=name)
        for name in sorted(declared_anywhere(call.tool.home))
        if not any(covers_package(each, name) for each in given)
    ]
    if not lacked:
        return [told]
    command = trust_command(call.tool.skill, lacked, roots=roots)
    return [f"{told}; the user can grant those that its files declare: `{command}`"]


def _has_programs(folder: str, text: str) -> bool:
    name = re.escape(folder.rpartition("/")[2])
    return re.search(rf"(?<![\w.-]){name}/(?:bin|Scripts)/", text) is not None


def _folder_of_script(call: ToolCall) -> str:
    runs = call.tool.runs
    file = runs.file if isinstance(runs, Script) else call.tool.home
    return os.path.relpath(Path(file).parent, call.tool.home) if file != call.tool.home else "."


def _keeping(paths: Sequence[str], call: ToolCall, roots: Sequence[str]) -> str:
    needs = [Need(kind="own-folder", value=path) for path in paths]
    return trust_command(call.tool.skill, needs, roots=roots)


def _entry_made(path: str, homes: Sequence[str]) -> str:
    """Return the first part of a path below a skill that the skill does not have, "" for none."""
    for home in homes:
        if path.startswith(f"{home}/"):
            parts = os.path.normpath(path[len(home) + 1 :]).split("/")
            for length in range(1, len(parts) + 1):
                made = "/".join(parts[:length])
                if parts[0] != ".." and not os.path.lexists(f"{home}/{made}"):
                    return made
    return ""


def _is_named(path: str, home: str) -> bool:
    """Tell whether files of a skill name an entry, and it can be granted.

    The name alone, in its output or made by it, would be no reason: its arguments decide that.
    """
    name = path.rpartition("/")[2]
    try:
        grantable(Need(kind="own-folder", value=path), home)
    except GrantRefusedError:
        return False
    return any(
        re.search(rf"['\"`/]{re.escape(name)}['\"`/]", text) for text in texts_of(home).values()
    )


_GIVEN = re.compile(r"(?<![\w./~$}])(~?/[\w./+@,-]*\w)")
_NOT_THERE = re.compile(
    r"no such file|not found|not exist|enoent|cannot (?:find|open)", re.IGNORECASE
)
_SEEN = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/dev", "/proc", "/sys")


def note_on_outside_paths(
    result: ToolResult, call: ToolCall, permit: Permit, roots: Sequence[str]
) -> list[str]:
    """Name the grant of paths that a caller gave, and that lie where a tool sees nothing.

    Whether they exist is not looked at: that is not for whoever gives them to learn.
    """
    said, user = last_words(result), str(home_directory() or "")
    if call.is_unconfined or not call.tool.home or not _NOT_THERE.search(said):
        return []
    access, own = permit.access, base_environment()["HOME"]
    seen = [*map(str, (*access.readable, *access.writable, call.terms.workspace)), *_SEEN]
    seen += [call.tool.home, call.tool.place]
    given = dict.fromkeys(_GIVEN.findall(json.dumps(call.arguments, default=str)))
    named = [path for path in given if path.replace("~", own, 1) in said]
    paths = [path.replace("~", user, 1) for path in named][:_MOST_PATHS]
    outside = [each for each in paths if not any(covers_path(path, each) for path in seen)]
    needs = [Need(kind="read", value=path) for path in outside if _may_be_read(path, user)]
    if not needs:
        return []
    command = trust_command(call.tool.skill, [*needs, *as_command(call)], roots=roots)
    listed = ", ".join(need.value for need in needs)
    told = f"note: a tool does not see {listed}, outside of the workspace; copy it there, or let"
    return [f"{told} the user grant it: `{command}`"]


def _may_be_read(path: str, user: str) -> bool:
    """Tell whether a path may be proposed: one in which keys are kept is not."""
    inside = os.path.relpath(path, user) if user else path
    try:
        grantable(Need(kind="read", value=path), "")
    except GrantRefusedError:
        return False
    return not never_proposed(inside)


def note_on_absent_paths(result: ToolResult, permit: Permit) -> list[str]:
    """Say which granted paths the call did not have, if it failed or names them."""
    said = "" if result.outcome == "failed" else last_words(result)
    told = [path for path in permit.access.absent if not said or path in said][:_MOST_PATHS]
    if not told:
        return []
    verb, them = ("does", "it") if len(told) == 1 else ("do", "them")
    absent = f"note: {', '.join(told)} {verb} not exist, or became a link"
    return [f"{absent}, so that it was not given what was granted; make {them}, and call it again"]


def note_on_home(
    result: ToolResult, call: ToolCall, permit: Permit, roots: Sequence[str], tools: Sequence[Tool]
) -> list[str]:
    """Say that its HOME is its own, if it found nothing there, or names what it wrote there.

    `tools` are the scripts that ran.
    """
    said, own, user = last_words(result), base_environment()["HOME"], home_directory()
    finds_nothing = _FINDS_NOTHING.search(said) is not None
    is_left = result.left_in_home and not finds_nothing
    if call.is_unconfined or user is None:
        return []
    access = permit.access
    given = [*map(str, access.readable), *map(str, access.writable)]
    paths = [
        path
        for path in dict.fromkeys(path for tool in tools for path in home_paths_of(tool))
        if finds_nothing or is_left or f"{own}/{path}" in said or _is_there(user / path)
    ]
    paths += [path for path in _printed(said, own, user, call) if path not in paths]
    if result.left_in_home:  # a package may have, and not the script
        others = (path for path in _of_code(permit.access.packages) if _is_there(user / path))
        paths += islice(others, _MOST_PATHS)
    given += permit.access.absent  # of which another note tells
    lacked = [path for path in paths if not any(covers_path(g, f"{user}/{path}") for g in given)]
    if not lacked:
        names_own = f"{own}/." in said
        if names_own and finds_nothing and result.is_error and not paths:
            return [_note_on_cache(said, own, str(user), call, roots) or _OWN_HOME]
        return [_note_on_lost(call, str(user), roots)] if names_own and is_left else []
    kind: NeedKind = "write" if is_left else "read"  # what it left there has just been made
    needs = [Need(kind=kind, value=f"{user}/{path}") for path in lacked[:_MOST_PATHS]]
    needs += as_command(call)
    command = trust_command(call.tool.skill, needs, roots=roots)
    named = ", ".join(f"~/{path}" for path in lacked[:_MOST_PATHS])
    reason = f"its code uses {named}, and its HOME is a folder of its own, which is gone now"
    return [f"note: {reason}; the user can grant those that exist in yours: `{command}`"]


def _printed(said: str, own: str, user: Path, call: ToolCall) -> Iterator[str]:
    """Yield paths of its HOME that a call printed, that the user's has, and that its code names.

    By their last part, in quotes: what a call printed alone would be no reason.
    """
    pattern = rf"{re.escape(own)}/((?:\.local/\w+|\.\w[\w.-]*)/\w[\w.-]*)"
    found = dict.fromkeys(re.findall(pattern, said))
    texts = sources_of(call.tool.home) if found and call.tool.home else {}
    for path in islice(found, _MOST_PATHS):
        is_named = _is_quoted(path.rpartition("/")[2], texts)
        if is_named and not never_proposed(path) and (user / path).exists():
            yield path


def _note_on_lost(call: ToolCall, user: str, roots: Sequence[str]) -> str:
    """Say that what it wrote in its HOME is lost, with the grant of a folder that its caller named.

    `--output ~/.lamp/known/hall.json`: by the words of the caller alone.
    """
    given = _GIVEN.findall(json.dumps(call.arguments, default=str))
    folders = {str(Path(path[2:]).parent) for path in given if path.startswith("~/.")} - {"."}
    paths = sorted(path for path in folders if not never_proposed(path))[:_MOST_PATHS]
    if not paths:
        return _LOST_HOME
    needs = [*(Need(kind="write", value=f"{user}/{path}") for path in paths), *as_command(call)]
    command = trust_command(call.tool.skill, needs, roots=roots)
    return f"{_LOST_HOME}; the user can grant a folder that exists: `{command}`"


def _of_code(packages: Iterable[str]) -> Iterator[str]:
    """Yield the paths below a home that the code of packages names."""
    texts = (text for each in packages for text in texts_of_package(split_package(each)[0]))
    yield from dict.fromkeys(path for text in texts for path in home_paths_in(text))


def _note_on_cache(said: str, own: str, user: str, call: ToolCall, roots: Sequence[str]) -> str:
    """Name the grant of a cache of the user's in which a call missed something, "" for none.

    Only caches are proposed by what a call printed: they hold no keys.
    """
    found = re.search(rf"{re.escape(own)}/(\.cache/[\w-][\w.-]*)/", said)
    if found is None:
        return ""
    needs = [Need(kind="read", value=f"{user}/{found[1]}"), *as_command(call)]
    command = trust_command(call.tool.skill, needs, roots=roots)
    told = f"note: its HOME is a folder of its own, in which there is no ~/{found[1]}"
    return f"{told}; the user can fill that at home, and grant it: `{command}`"


def _is_there(path: Path) -> bool:
    """Tell whether a path of the user's home exists, and is more than a cache."""
    return ".cache" not in path.parts and path.exists()


_NAME = r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+"
# A message about a variable: "set API_KEY", "API_KEY is not set".
_VARIABLE = re.compile(
    rf"\b(?:[Ss]et|[Ee]xport|[Mm]issing|[Rr]equires?)(?: the| your)? [`$'\"]?({_NAME})\b"
    rf"|\b({_NAME})\b"
    r"(?=[^\n]{0,60}(?:environment|not set|not configured|missing|required|\.env\b))"
)
_ALTERNATIVE = re.compile(rf"\bor [`$'\"]?({_NAME})\b")
_MOST_VARIABLES = 5
_MOST_KEYS = 3
# Words for access, and for what gives it.
_ABOUT_ACCESS = re.compile(
    r"\b(?:api|keys?|tokens?|secrets?|credentials?|passwords?|auth\w*|log(?:ged)? ?in|env"
    r"|environ\w*|configur\w*|variables?|unset|unbound|undefined|forbidden|unauthori[sz]ed"
    r"|KeyError|40[13])\b",
    re.IGNORECASE,
)


def notes_on_variables(
    result: ToolResult, call: ToolCall, permit: Permit, roots: Sequence[str], tools: Sequence[Tool]
) -> list[str]:
    """Name the variables that a call missed, or that are set here and were not given to it.

    `tools` are the scripts that ran. What it printed only tells which of those that they read: a
    name that is only there would be no reason.
    """
    given = permit.access.variables
    scripts = [with_variables(tool) for tool in tools] if is_command(call) else tools
    own = [name for each in scripts for name in variables_read(each)]
    find = withheld if result.outcome == "failed" else settings_withheld
    missed = _named(result, call, own) or find(own, given)
    if result.outcome == "failed":
        missed = [*_likely(result, scripts), *missed]
        missed = missed or _of_packages(result, permit)
    return _proposed(missed, call, permit, roots)


def _likely(result: ToolResult, scripts: Iterable[Tool]) -> list[str]:
    """Return the variables that may be why a script failed, of which it does not tell the name.

    One that gives another reason in its own words has that reason. A variable that is neither set
    here nor named like a secret is one that most users do without.
    """
    said = last_words(result)
    if said.strip() and not _ABOUT_ACCESS.search(said):
        return []
    return [
        name
        for each in scripts
        for name in variables_without_default(each)
        if name in said or is_set(name) or is_named_like_a_secret(name)
    ]


def _named(result: ToolResult, call: ToolCall, own: Sequence[str]) -> list[str]:
    """Return the variables that the output names and the script reads, or its skill has in quotes.

    Of several of which one will do, those that are set here.
    """
    said = last_words(result)
    named = [before or after for before, after in _VARIABLE.findall(said)] if call.tool.home else []
    if not named:
        return []
    others = _ALTERNATIVE.findall(said)
    texts = sources_of(call.tool.home)
    found = [
        name for name in dict.fromkeys((*named, *others)) if name in own or _is_quoted(name, texts)
    ][:_MOST_VARIABLES]
    here = [name for name in found if is_set(name)]
    return here if here and others else [name for name in found if name in named]


def _of_packages(result: ToolResult, permit: Permit) -> list[str]:
    """Return variables that are set here and that packages of the call read, if it missed some.

    It names them, or fails for want of access: then those are meant that are named like secrets.
    """
    said = last_words(result)
    is_access, named = _ABOUT_ACCESS.search(said) is not None, set(re.findall(_NAME, said))
    names = [name for name in variable_names() if re.fullmatch(_NAME, name)]
    names = [n for n in names if n in named or (is_access and is_named_like_a_secret(n))]
    names = withheld(names, permit.access.variables)
    found = read_by_packages(permit.access.packages, names) if names else []
    told = [name for name in found if name in named]
    # A package for many services reads the keys of all of them.
    return told or (found if len(found) <= _MOST_KEYS else [])


def _is_quoted(name: str, texts: Mapping[str, str]) -> bool:
    return any(f"'{name}'" in text or f'"{name}"' in text for text in texts.values())


def _proposed(
    names: Sequence[str], call: ToolCall, permit: Permit, roots: Sequence[str]
) -> list[str]:
    given = permit.access.variables
    lacked = [n for n in dict.fromkeys(names) if n not in given and not needs_no_grant(n)]
    unset = [name for name in lacked if name in permit.access.unset]
    wanted = [name for name in lacked if name not in unset]
    notes = []
    if unset:
        verb = "is" if len(unset) == 1 else "are"
        said = f"note: it reads {', '.join(unset)}, which {verb} granted, but not set here"
        notes.append(f"{said}: set it where Skillpouch runs, `export {unset[0]}=…`")
    if not wanted:
        return notes
    needs = [Need(kind=_kind(name, call), value=name) for name in wanted]
    # Settings are for all that is done with a skill.
    needs += as_command(call) if any(need.kind == "secret" for need in needs) else []
    verb, whom = "was" if len(wanted) == 1 else "were", "commands" if is_command(call) else "it"
    command = trust_command(call.tool.skill, needs, roots=roots)
    said = f"note: it reads {', '.join(wanted)}, which {verb} not granted to {whom}"
    return [*notes, f"{said}; the user can grant it: `{command}`"]


def _kind(name: str, call: ToolCall) -> NeedKind:
    """Return the kind of a variable: a setting too where a file of the skill has a value for it."""
    texts = texts_of(call.tool.home).items() if call.tool.home else ()
    code = (text for path, text in texts if Path(path).suffix in EXTENSIONS)
    return "setting" if any(has_plain_default(name, text) for text in code) else kind_of(name)
