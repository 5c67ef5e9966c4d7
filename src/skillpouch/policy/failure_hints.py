"""Adds notes to the result of a call: what it tried to use and was not granted."""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from skillpouch.calls import ToolCall
from skillpouch.environment import base_environment, home_directory
from skillpouch.execution.package_files import changed_files
from skillpouch.limits import size_text
from skillpouch.needs import Need, NeedKind
from skillpouch.policy.authorize import Permit
from skillpouch.policy.package_hints import notes_on_fetching, notes_on_packages, scripts_named
from skillpouch.results import ToolResult
from skillpouch.signatures.shebang import lacks_typescript
from skillpouch.tools import Binary, BuiltIn, InlineScript, Script
from skillpouch.trust.call_needs import has_usual_memory
from skillpouch.trust.errors import GrantRefusedError, trust_command
from skillpouch.trust.grant import covers_package, covers_path
from skillpouch.trust.grantable import grantable
from skillpouch.trust.requested import kind_of, needs_no_grant, paths_in_home
from skillpouch.trust.requested_packages import (
    fetched_by_code,
    hosts_in_code,
    sources_of,
    texts_of,
    variables_without_default,
)
from skillpouch.workspace.read_only import run_later_named

# Messages of programs without a network: a name is not found, or there is no route to it. Not a
# regular expression: they are looked for in the output of every call.
_NO_NETWORK = (
    "Name or service not known",
    "resolve host",
    "name resolution",
    "etwork is unreachable",
    "EAI_AGAIN",
    "ENOTFOUND",
)
_NAME = r"([A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+)"
_WANTED = re.compile(
    rf"(?:resolve host:? '?|EAI_AGAIN |ENOTFOUND |host='|https?://(?:[^\s/@]*@)?){_NAME}"
)
_MOST_HOSTS = 5
# How Python, numpy, C, C++, Node, Java, Go and Ruby report that they got no memory.
_NO_MEMORY = re.compile(
    r"MemoryError|Unable to allocate|[Cc]annot allocate memory|ENOMEM|bad_alloc|OutOfMemoryError"
    r"|heap out of memory|Fatal process out of memory|runtime: out of memory|NoMemoryError"
    r"|failed to allocate memory|memory exhausted|Could not reserve enough space"
)
# In a network with nothing but loopback, only loopback can refuse a connection.
_NOBODY_THERE = ("ECONNREFUSED", "onnection refused")
_LOCAL = re.compile(r"\b(?:localhost|127\.0\.0\.1):(\d{2,5})\b")
_LONGEST_SEARCHED = 20_000  # characters at the end of each stream
_OURS = "skillpouch trust"
_NOT_OURS = (
    f"note: it printed lines with `{_OURS}` in it: these are its own words, and no proposal of"
    " Skillpouch"
)
# EUNATCH: the sandbox answers so to a unix socket that was not granted, and to nothing else.
_NO_UNIX_SOCKET = re.compile(r"protocol driver not attached|EUNATCH", re.IGNORECASE)
# A message about a variable: "set API_KEY", "API_KEY is not set".
_VARIABLE = re.compile(
    r"\b(?:[Ss]et|[Ee]xport|[Mm]issing|[Rr]equires?)(?: the| your)? [`$'\"]?"
    r"([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)\b"
    r"|\b([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)\b"
    r"(?=[^\n]{0,60}(?:environment|not set|not configured|missing|required|\.env\b))"
)
_MOST_VARIABLES = 5
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


def with_notes(
    result: ToolResult, call: ToolCall, permit: Permit, roots: Sequence[str] = ()
) -> ToolResult:
    """Add the commands that would grant what a script may have lacked.

    What was refused is reported even if the call succeeded: a script may continue without what it
    could not fetch, or say that it found nothing, and nobody would know.
    """
    notes = _refused(result, call, roots)
    if result.outcome in ("ok", "failed") or result.refused_network:
        notes = notes or _network(result, call, permit, roots)
    notes += _own_loopback(result, call, permit, roots)
    notes += _own_folder(result, call, permit, roots)
    notes += _absent_paths(result, permit)
    notes += _local_sockets(result, call, permit, roots)
    if result.outcome != "ok":
        notes += _memory(result, call, permit, roots)
    if result.outcome == "failed":
        notes += _changed_files(result, call, permit, roots)
        notes += _folder_renames(result, call)
        notes += _run_later(result, call, roots)
    if isinstance(call.tool.runs, Script):
        # What a script installs by itself is often what its output tells to install, too.
        found = _of_script(result, call, permit, roots)
        earlier = "\n".join(notes)
        notes += [note for note in found if note.rpartition(": ")[2] not in earlier]
    if result.outcome == "failed" and _is_command(call):
        notes += notes_on_packages(result, call, permit, roots, list(scripts_named(call)))
        notes += notes_on_fetching(result, call, roots)
    is_noted = notes or result.outcome == "failed"
    if is_noted and any(_OURS in text for text in (result.stdout, result.stderr)):
        notes.append(_NOT_OURS)
    return result.with_notes(notes) if notes else result


def _of_script(
    result: ToolResult, call: ToolCall, permit: Permit, roots: Sequence[str]
) -> list[str]:
    missed, home = _variables_missed(result, call), _home(result, call, permit, roots)
    if result.outcome != "failed":
        return _variables(missed, call, permit, roots) + home
    names = (*variables_without_default(call.tool), *missed)
    notes = _variables(names, call, permit, roots) + home
    notes += _typescript(result, call, permit, roots)
    return notes + notes_on_packages(result, call, permit, roots, [call.tool])


def _refused(result: ToolResult, call: ToolCall, roots: Sequence[str]) -> list[str]:
    if not result.refused_hosts:
        return []
    needs = [Need(kind="host", value=host) for host in result.refused_hosts] + _as_command(call)
    command = trust_command(call.tool.skill, needs, roots=roots)
    said = f"note: it was not allowed to reach {', '.join(result.refused_hosts)}"
    return [f"{said}; the user can grant it: `{command}`"]


def _network(result: ToolResult, call: ToolCall, permit: Permit, roots: Sequence[str]) -> list[str]:
    """Name the hosts that the call wanted, if its arguments or the files of its skill do.

    Its output is untrusted, and may be a page that a tool has read: a host that is only there is
    never proposed, because whoever wrote the page may own it.
    """
    said = _last_words(result)
    is_told = _says(said, _NO_NETWORK) or (result.is_error and "getaddrinfo" in said)
    if not is_told and not result.refused_network:
        return []
    if not _runs_here(call) or call.is_unconfined or permit.access.hosts:
        return []
    given = json.dumps(call.arguments, default=str)
    # Where the output tells of no network, an address in it is one like any other.
    named = (is_told and _WANTED.findall(said)) or _WANTED.findall(given)
    found = dict.fromkeys(name.lower() for name in named)
    hosts = [host for host in islice(found, _MOST_HOSTS) if _is_its_own(host, call, given)]
    in_code = [] if hosts else list(islice(_hosts_in_code(call), _MOST_HOSTS))
    is_silent = not hosts and (result.is_error or not in_code)
    if is_silent and (fetching := _fetching(call, permit, roots)):
        return fetching
    proposed = hosts or in_code or ["HOST"]
    needs = [Need(kind="host", value=host) for host in proposed] + _as_command(call)
    command = trust_command(call.tool.skill, needs, roots=roots)
    if in_code:
        reason = "it wanted the network, of which it was not granted any"
        return [f"note: {reason}; its code names {', '.join(in_code)}: `{command}`"]
    wanted = ", ".join(hosts) or "a host that neither its files nor its arguments name"
    return [f"note: it wanted {wanted}, and was not granted any network: `{command}`"]


def _fetching(call: ToolCall, permit: Permit, roots: Sequence[str]) -> list[str]:
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
    ways.append([Need(kind="host", value="HOST")])
    commands = (trust_command(call.tool.skill, way, roots=roots) for way in ways)
    asked = "the packages, or the host of their registry" if needs else "the host of its registry"
    runs = ", ".join(f"`{words}`" for words in dict.fromkeys((*installed.values(), *run)))
    said = f"note: its code runs {runs}, and it was not granted any network; the user can grant"
    return [f"{said} {asked}: {' or '.join(f'`{command}`' for command in commands)}"]


def _hosts_in_code(call: ToolCall) -> Iterator[str]:
    """Yield each host of the addresses in the scripts of a call, and in their modules."""
    tools = scripts_named(call) if _is_command(call) else [call.tool]
    yield from dict.fromkeys(host for tool in tools for host in hosts_in_code(tool))


def _is_its_own(host: str, call: ToolCall, given: str) -> bool:
    named = re.compile(rf"(?<![\w.-]){re.escape(host)}(?![\w-])", re.IGNORECASE)
    texts = texts_of(call.tool.home).values() if call.tool.home else ()
    return bool(named.search(given)) or any(named.search(text) for text in texts)


def _local_sockets(
    result: ToolResult, call: ToolCall, permit: Permit, roots: Sequence[str]
) -> list[str]:
    """Name the grant of a call that tried to make a unix socket, also if it said nothing of it."""
    is_granted = "local-sockets" in permit.access.profiles
    if not _runs_here(call) or call.is_unconfined or is_granted:
        return []
    is_told = result.is_error and _NO_UNIX_SOCKET.search(_last_words(result))
    if not result.refused_sockets and not is_told:
        return []
    command = trust_command(call.tool.skill, [Need(kind="local-sockets")], roots=roots)
    reason = "it wanted unix sockets among its own processes, which it was not granted"
    went_on = "" if result.is_error else ", and went on without; if its answer lacks something"
    return [f"note: {reason}{went_on}{',' if went_on else ';'} the user can grant it: `{command}`"]


def _changed_files(
    result: ToolResult, call: ToolCall, permit: Permit, roots: Sequence[str]
) -> list[str]:
    """Name the grant of a call that missed a file in /etc that was changed on this machine."""
    named = set(_IN_ETC.findall(f"{result.stdout}\n{result.stderr}"))
    if not named or call.is_unconfined:
        return []
    missed = sorted(named & changed_files() - set(map(str, permit.access.readable)))
    if not missed:
        return []
    needs = [Need(kind="read", value=path) for path in missed] + _as_command(call)
    command = trust_command(call.tool.skill, needs, roots=roots)
    verb = "was" if len(missed) == 1 else "were"
    said = f"note: {', '.join(missed)} {verb} changed on this machine, so tools do not see it"
    return [f"{said}; the user can grant it: `{command}`"]


def _folder_renames(result: ToolResult, call: ToolCall) -> list[str]:
    """Name the way of writing in which folders can be renamed, if that is what failed."""
    is_layered = "(overlay)" in result.protections.get("writes", "")
    if not is_layered or not _NO_RENAME.search(_last_words(result)):
        return []
    tools = json.dumps([call.tool.id], ensure_ascii=False)
    rule = f'`[[limits]]` with `tools = {tools}` and `writes = "direct"` in policy.toml'
    told = "note: a folder that existed cannot be renamed in one step where changes can be undone"
    return [f"{told} (`mv` copies it); the user can let it write directly: {rule}"]


def _run_later(result: ToolResult, call: ToolCall, roots: Sequence[str]) -> list[str]:
    """Name the grant of a call that wanted to write what other programs run, such as git hooks."""
    path = "" if call.is_unconfined else run_later_named(call, _last_words(result))
    if not path or not call.tool.home:
        return []
    needs = [Need(kind="write", value=path), *_as_command(call)]
    command = trust_command(call.tool.skill, needs, roots=roots)
    told = f"note: {path} is read-only for tools, because other programs run what is there"
    return [f"{told}, unconfined; the user can let it write that: `{command}`"]


def _memory(result: ToolResult, call: ToolCall, permit: Permit, roots: Sequence[str]) -> list[str]:
    """Say how much memory the call had, and who can give it more, if that ended it."""
    most = permit.applied_to(call).limits.memory_bytes
    ran_out = result.code == "memory_limit" or _NO_MEMORY.search(_last_words(result))
    if most is None or not result.protections or not ran_out:
        return []
    had, more = f"note: each of its processes may use {size_text(most)} of memory", 2 * most
    bound = getattr(call.limits.memory_bytes, "most", None)
    if bound is not None and most >= bound:
        return [f"{had}, and its project allows no more: `memory_bytes` in skillpouch.toml"]
    if call.tool.home and has_usual_memory(call.limits):
        needs = [Need(kind="memory", value=size_text(more)), *_as_command(call)]
        command = trust_command(call.tool.skill, needs, roots=roots)
        return [f"{had}; the user can grant more: `{command}`"]
    rule = f"`[[limits]]` with `tools = {json.dumps([call.tool.id])}` and `memory_bytes = {more}`"
    return [f"{had}; only the user can raise it: {rule} in policy.toml"]


def _own_loopback(
    result: ToolResult, call: ToolCall, permit: Permit, roots: Sequence[str]
) -> list[str]:
    """Explain that 127.0.0.1 is the call's own, if it found nobody there."""
    is_own = "loopback" in result.protections.get("profiles", "").split("+")
    is_alone = result.found_nobody or _says(_last_words(result), _NOBODY_THERE)
    if not is_own or permit.access.hosts or not is_alone:
        return []
    said = "note: 127.0.0.1 is its own: it reaches no server of this machine"
    texts = sources_of(call.tool.home).values() if call.tool.home else ()
    named = (_LOCAL.search(text) for text in (json.dumps(call.arguments, default=str), *texts))
    host = next((f"localhost:{found[1]}" for found in named if found), "")
    if not host:
        return [f"{said} unless one is granted by name and port"]
    needs = [Need(kind="host", value=host), *_as_command(call)]
    command = trust_command(call.tool.skill, needs, roots=roots)
    return [f"{said}; the user can grant one: `{command}`"]


def _own_folder(
    result: ToolResult, call: ToolCall, permit: Permit, roots: Sequence[str]
) -> list[str]:
    """Name the grant of a call that wrote, or wanted to write, in the folder of its skill."""
    home = call.tool.place
    if not home or call.is_unconfined or _is_command(call):
        return []
    dropped = [path for path in call.dropped if _is_named(path, home)][:_MOST_PATHS]
    notes = []
    if dropped:
        told = f"note: it made {', '.join(dropped)} in its own folder, which was removed afterwards"
        command = _keeping(dropped, call, roots)
        notes.append(f"{told}; the user can let it keep that: `{command}`")
    said = _last_words(result)
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


def _absent_paths(result: ToolResult, permit: Permit) -> list[str]:
    """Say which granted paths the call did not have, if it failed or names them."""
    said = "" if result.outcome == "failed" else _last_words(result)
    told = [path for path in permit.access.absent if not said or path in said][:_MOST_PATHS]
    if not told:
        return []
    verb, them = ("does", "it") if len(told) == 1 else ("do", "them")
    absent = f"note: {', '.join(told)} {verb} not exist, or became a link"
    return [f"{absent}, so that it was not given what was granted; make {them}, and call it again"]


def _runs_here(call: ToolCall) -> bool:
    return isinstance(call.tool.runs, Script | InlineScript | Binary) or _is_command(call)


def _says(text: str, messages: Iterable[str]) -> bool:
    return any(message in text for message in messages)


def _last_words(result: ToolResult) -> str:
    return f"{result.stdout[-_LONGEST_SEARCHED:]}\n{result.stderr[-_LONGEST_SEARCHED:]}"


def _home(result: ToolResult, call: ToolCall, permit: Permit, roots: Sequence[str]) -> list[str]:
    """Say that its HOME is its own, if it found nothing there, or names what it wrote there."""
    said, own, user = _last_words(result), base_environment()["HOME"], home_directory()
    finds_nothing = _FINDS_NOTHING.search(said) is not None
    is_left = result.left_in_home and not finds_nothing
    if call.is_unconfined or user is None:
        return []
    access = permit.access
    given = [*map(str, access.readable), *map(str, access.writable)]
    paths = [
        path
        for path in paths_in_home(call.tool)
        if finds_nothing or is_left or f"{own}/{path}" in said or _is_there(user / path)
    ]
    given += permit.access.absent  # of which another note tells
    lacked = [path for path in paths if not any(covers_path(g, f"{user}/{path}") for g in given)]
    if not lacked:
        names_own = f"{own}/." in said
        if names_own and finds_nothing and result.is_error and not paths:
            return [_OWN_HOME]
        return [_LOST_HOME] if names_own and is_left else []
    # What it names or left there is not missing, so it has just been made.
    kind: NeedKind = "write" if is_left or f"{own}/{lacked[0]}" in said else "read"
    needs = [Need(kind=kind, value=f"{user}/{path}") for path in lacked[:_MOST_PATHS]]
    command = trust_command(call.tool.skill, needs, roots=roots)
    named = ", ".join(f"~/{path}" for path in lacked[:_MOST_PATHS])
    reason = f"its code uses {named}, and its HOME is a folder of its own, which is gone now"
    return [f"note: {reason}; the user can grant those that exist in yours: `{command}`"]


def _is_there(path: Path) -> bool:
    """Tell whether a path of the user's home exists, and is more than a cache."""
    return ".cache" not in path.parts and path.exists()


def _typescript(
    result: ToolResult, call: ToolCall, permit: Permit, roots: Sequence[str]
) -> list[str]:
    """Name the package with which a Node that is too old runs a script in TypeScript."""
    runs = call.tool.runs
    is_script = isinstance(runs, Script) and runs.language == "typescript"
    if not is_script or not lacks_typescript(result.stderr, "typescript"):
        return []
    if any(covers_package(package, "npm:tsx") for package in permit.access.packages):
        return []
    needs = [Need(kind="packages", value="npm:tsx")]
    command = trust_command(call.tool.skill, needs, roots=roots)
    return [f"note: the package tsx runs it on this Node; the user can grant it: `{command}`"]


def _variables(
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
    needs = [Need(kind=kind_of(name), value=name) for name in wanted]
    verb = "was" if len(wanted) == 1 else "were"
    command = trust_command(call.tool.skill, needs, roots=roots)
    said = f"note: it reads {', '.join(wanted)}, which {verb} not granted to it"
    return [*notes, f"{said}; the user can grant it: `{command}`"]


def _variables_missed(result: ToolResult, call: ToolCall) -> list[str]:
    """Return the variables that the output names and the script reads, or its skill has in quotes.

    A module may read them for the script. Their names in the output alone would be no reason.
    """
    found = _VARIABLE.findall(_last_words(result))
    named = list(dict.fromkeys(before or after for before, after in found))[:_MOST_VARIABLES]
    if not named or not call.tool.home:
        return []
    texts = sources_of(call.tool.home)
    return [name for name in named if name in call.tool.variables or _is_quoted(name, texts)]


def _is_quoted(name: str, texts: Mapping[str, str]) -> bool:
    return any(f"'{name}'" in text or f'"{name}"' in text for text in texts.values())


def _is_command(call: ToolCall) -> bool:
    """Tell whether an agent wrote what ran, for a skill."""
    return isinstance(call.tool.runs, BuiltIn) and bool(call.tool.home)


def _as_command(call: ToolCall) -> list[Need]:
    return [Need(kind="commands")] if _is_command(call) else []
