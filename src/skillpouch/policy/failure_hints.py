"""Adds notes to the result of a call: what it tried to use and was not granted."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

from skillpouch.calls import ToolCall
from skillpouch.execution.package_files import changed_files
from skillpouch.limits import size_text
from skillpouch.needs import Need
from skillpouch.policy.authorize import Permit
from skillpouch.results import ToolResult
from skillpouch.signatures.shebang import EXTENSIONS, lacks_typescript
from skillpouch.tools import Binary, BuiltIn, InlineScript, Script, Tool
from skillpouch.trust.call_needs import has_usual_memory, skill_of
from skillpouch.trust.errors import trust_command
from skillpouch.trust.grant import covers_package, split_package
from skillpouch.trust.inferred_packages import Proposal
from skillpouch.trust.requested import kind_of, needs_no_grant
from skillpouch.trust.requested_packages import (
    fetched_by_code,
    hosts_in_code,
    installed_in,
    package_needs,
    propose_packages,
    sources_of,
    texts_of,
    variables_without_default,
)

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
_LONGEST_SEARCHED = 20_000  # characters at the end of each stream
_NO_MODULE = re.compile(
    r"No module named ['\"]?([\w.]+)|Cannot find (?:package|module) ['\"]([^'\"\s]{1,200})"
)
# What people tell a user to run: `pip install lamp`, `uv pip install "lamp>=2"`, `npm i lamp`.
_ADVICE = re.compile(
    r"\b(?:pip3?|uv(?:[ ]pip)?|pipx|poetry|conda|npm|pnpm|yarn|bun)[ ](?:install|add|i)[ ]"
    r"([^\n;&|`]{1,200})"
)
_OURS = "skillpouch trust"
_NOT_OURS = (
    f"note: it printed lines with `{_OURS}` in it: these are its own words, and no proposal of"
    " Skillpouch"
)
_WORD = re.compile(r"[('\"]*((?:@[\w.-]+/)?[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)")
_NO_ADVICE = (
    "note: its output tells to install packages that no file of the skill declares or names, so"
    " none is proposed: what a program prints is no reason to install anything"
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
    notes += _own_loopback(result, permit)
    notes += _local_sockets(result, call, permit, roots)
    if result.outcome != "ok":
        notes += _memory(result, call, permit, roots)
    if result.outcome == "failed":
        notes += _changed_files(result, call, permit, roots)
        notes += _folder_renames(result, call)
    if isinstance(call.tool.runs, Script):
        # What a script installs by itself is often what its output tells to install, too.
        found = _of_script(result, call, permit, roots)
        earlier = "\n".join(notes)
        notes += [note for note in found if note.rpartition(": ")[2] not in earlier]
    if result.outcome == "failed" and _is_command(call):
        notes += _packages(result, call, permit, roots, list(_scripts_named(call)))
        notes += _not_fetched(result, call, roots)
    is_noted = notes or result.outcome == "failed"
    if is_noted and any(_OURS in text for text in (result.stdout, result.stderr)):
        notes.append(_NOT_OURS)
    return result.with_notes(notes) if notes else result


def _of_script(
    result: ToolResult, call: ToolCall, permit: Permit, roots: Sequence[str]
) -> list[str]:
    missed = _variables_missed(result, call)
    if result.outcome != "failed":
        return _variables(missed, call, permit, roots)
    names = (*variables_without_default(call.tool), *missed)
    notes = _variables(names, call, permit, roots)
    notes += _typescript(result, call, permit, roots)
    return notes + _packages(result, call, permit, roots, [call.tool])


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
    tools = _scripts_named(call) if _is_command(call) else [call.tool]
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


def _memory(result: ToolResult, call: ToolCall, permit: Permit, roots: Sequence[str]) -> list[str]:
    """Say how much memory the call had, and who can give it more, if that ended it."""
    most = permit.applied_to(call).limits.memory_bytes
    ran_out = result.code == "memory_limit" or _NO_MEMORY.search(_last_words(result))
    if most is None or not result.protections or not ran_out:
        return []
    had, more = f"note: each of its processes may use {size_text(most)} of memory", 2 * most
    if call.tool.home and has_usual_memory(call.limits):
        needs = [Need(kind="memory", value=size_text(more)), *_as_command(call)]
        command = trust_command(call.tool.skill, needs, roots=roots)
        return [f"{had}; the user can grant more: `{command}`"]
    rule = f"`[[limits]]` with `tools = {json.dumps([call.tool.id])}` and `memory_bytes = {more}`"
    return [f"{had}; only the user can raise it: {rule} in policy.toml"]


def _own_loopback(result: ToolResult, permit: Permit) -> list[str]:
    """Explain that 127.0.0.1 is the call's own, if it found nobody there."""
    is_own = "loopback" in result.protections.get("profiles", "").split("+")
    if not is_own or permit.access.hosts or not _says(_last_words(result), _NOBODY_THERE):
        return []
    said = "note: 127.0.0.1 is its own: it reaches no server of this machine"
    return [f"{said} unless one is granted by name and port"]


def _runs_here(call: ToolCall) -> bool:
    return isinstance(call.tool.runs, Script | InlineScript | Binary) or _is_command(call)


def _says(text: str, messages: Iterable[str]) -> bool:
    return any(message in text for message in messages)


def _last_words(result: ToolResult) -> str:
    return f"{result.stdout[-_LONGEST_SEARCHED:]}\n{result.stderr[-_LONGEST_SEARCHED:]}"


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
    wanted = [n for n in dict.fromkeys(names) if n not in given and not needs_no_grant(n)]
    if not wanted:
        return []
    needs = [Need(kind=kind_of(name), value=name) for name in wanted]
    verb = "was" if len(wanted) == 1 else "were"
    command = trust_command(call.tool.skill, needs, roots=roots)
    said = f"note: it reads {', '.join(wanted)}, which {verb} not granted to it"
    return [f"{said}; the user can grant it: `{command}`"]


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


def _packages(
    result: ToolResult, call: ToolCall, permit: Permit, roots: Sequence[str], tools: Sequence[Tool]
) -> list[str]:
    """Name the packages that a script lacked: those that its own code imports, and no others.

    What it printed only tells that something is missing, and which of its optional imports that is.
    Its output is untrusted: a name that is only there may be one that an attacker registered.
    """
    said = "\n".join(text[-_LONGEST_SEARCHED:] for text in (result.stdout, result.stderr))
    missing, advice = _NO_MODULE.findall(said), _ADVICE.findall(said)
    if not missing and not advice:
        return []
    skill = skill_of(call.tool)
    named = _named(missing, advice)
    given = permit.access.packages
    lacking = [
        each
        for each in (propose_packages(skill, tools) if skill else ())
        if not each.optional or named & _names_of(each)
        if not any(covers_package(package, each.package) for package in given)
    ]
    told = _told_by_files(call, named, lacking)
    told = [name for name in told if not any(covers_package(package, name) for package in given)]
    if not lacking and not told:
        spelt = [*named, *(f"npm:{name}" for name in named)]
        is_known = any(covers_package(package, name) for package in given for name in spelt)
        return [_NO_ADVICE] if advice and not is_known else []
    # A package that the files name takes the place of one that is only guessed from an import.
    lacking = [each for each in lacking if not any(_is_guess_for(name, each) for name in told)]
    needs = [*package_needs(replace(each, optional=False) for each in lacking)]
    needs += [Need(kind="packages", value=name) for name in told]
    command = trust_command(call.tool.skill, needs, roots=roots)
    names = ", ".join(_described(each) for each in lacking)
    reasons = [f"it imports packages that no file declares ({names})"] if lacking else []
    reasons += [f"its files tell to install {', '.join(told)}"] if told else []
    return [f"note: {', and '.join(reasons)}; the user can grant it: `{command}`"]


def _told_by_files(
    call: ToolCall, named: AbstractSet[str], lacking: Sequence[Proposal]
) -> list[str]:
    """Return the packages that files of the skill tell to install, of those that were missed.

    Its output says which are missed: by their names, or by an import with such a name. What the
    files say is under the digest of the skill, as its imports are.
    """
    texts = texts_of(call.tool.home).values() if call.tool.home else ()
    told: dict[str, str] = {}
    for package in chain.from_iterable(map(installed_in, texts)):
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


def _is_command(call: ToolCall) -> bool:
    """Tell whether an agent wrote what ran, for a skill."""
    return isinstance(call.tool.runs, BuiltIn) and bool(call.tool.home)


def _as_command(call: ToolCall) -> list[Need]:
    return [Need(kind="commands")] if _is_command(call) else []


_PATH = re.compile(r"(?:[\w.+@-]+/)*[\w.+@-]+", re.ASCII)
_MOST_PATHS = 200


def files_named(command: str, home: str) -> Iterator[str]:
    """Yield the files of a skill that a command names, by their paths in the skill."""
    for found in islice(_PATH.finditer(command), _MOST_PATHS):
        parts = [part for part in found[0].split("/") if part != "."]
        for start in range(max(len(parts) - 1, 1)):
            inside = "/".join(parts[start:])
            if ".." not in parts and Path(home, inside).is_file():
                yield inside
                break


def _scripts_named(call: ToolCall) -> Iterator[Tool]:
    """Yield a tool for each script of the skill in a command: its imports count, as for any."""
    for file in dict.fromkeys(files_named(call.arguments["command"], call.tool.home)):
        language = EXTENSIONS.get(Path(file).suffix)
        if language:
            path = f"{call.tool.home}/{file}"
            yield replace(call.tool, runs=Script(file=path, language=language, convention="stdin"))


NOT_FETCHED = "nothing is fetched here"  # what the shell of a skill prints
_RUNNERS = {"npx": "npm:", "bunx": "npm:", "uvx": "", "pipx": ""}
_INSTALLERS = re.compile(r"\b(?:uv )?pip3? install((?: [^\s;&|]+)+)")


def _not_fetched(result: ToolResult, call: ToolCall, roots: Sequence[str]) -> list[str]:
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
