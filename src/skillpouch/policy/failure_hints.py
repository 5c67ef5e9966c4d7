"""Adds notes to the result of a call: what it tried to use and was not granted."""

import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

from skillpouch.calls import ToolCall
from skillpouch.limits import size_text
from skillpouch.needs import Need
from skillpouch.policy.authorize import Permit
from skillpouch.policy.file_hints import (
    as_command,
    is_command,
    last_words,
    note_on_absent_paths,
    note_on_changed_files,
    note_on_home,
    note_on_outside_paths,
    note_on_renames,
    note_on_run_later,
    notes_on_own_folder,
    notes_on_variables,
)
from skillpouch.policy.package_hints import (
    note_on_installing,
    note_on_own_programs,
    note_on_typescript,
    notes_on_fetching,
    notes_on_packages,
    scripts_named,
)
from skillpouch.results import ToolResult
from skillpouch.signatures.signature import reads_input
from skillpouch.tools import Binary, InlineScript, Script, Tool
from skillpouch.trust.call_needs import has_usual_memory
from skillpouch.trust.errors import trust_command
from skillpouch.trust.grant import split_package
from skillpouch.trust.package_names import texts_of_package
from skillpouch.trust.requested_packages import (
    hosts_in_code,
    sources_of,
    texts_of,
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
# How OpenSSH and libpq report the server that they did not reach. They connect by themselves, never
# through a proxy.
_NO_PROXY = re.compile(
    r"connect to host ([\w.:-]+) port (\d+): |ssh: Could not resolve hostname ([\w.-]+)"
    r"|connection to server at \"([\w.:-]+)\"(?: \([^)\n]*\))?, port (\d+) failed"
    r"|could not translate host name \"([\w.-]+)\" to address"
)
# How Python, numpy, C, C++, Node, Java, Go and Ruby report that they got no memory.
_NO_MEMORY = re.compile(
    r"MemoryError|Unable to allocate|[Cc]annot allocate memory|ENOMEM|bad_alloc|OutOfMemoryError"
    r"|heap out of memory|Fatal process out of memory|runtime: out of memory|NoMemoryError"
    r"|failed to allocate memory|memory exhausted|Could not reserve enough space"
)
# In a network with nothing but loopback, only loopback can refuse a connection.
_NOBODY_THERE = ("ECONNREFUSED", "onnection refused")
_LOCAL = re.compile(r"\b(?:localhost|127\.0\.0\.1):(\d{2,5})\b")
# In messages, also as Python prints an address.
_ADDRESS = re.compile(rf"{_LOCAL.pattern}|\('(?:localhost|127\.0\.0\.1)', (\d{{2,5}})\)")
_OURS = "skillpouch trust"
_NOT_OURS = (
    f"note: it printed lines with `{_OURS}` in it: these are its own words, and no proposal of"
    " Skillpouch"
)
_PATH, _SOCKET = re.compile(r"(?<![\w.])/[\w./-]+"), re.compile(r"(?<![\w.])/[\w./-]+\.sock\b")
_ABOUT_SOCKETS = re.compile(r"\bsockets?\b|\bserver\b|\bdaemon\b", re.IGNORECASE)
_IN_TEMPORARY = re.compile(
    r"(?:[Nn]o such file|[Nn]ot found|not exist|ENOENT)[^\n]{0,60}?(/tmp/\w[\w./-]*\w)"
)
_MOST_SOCKETS = 20  # paths that are looked at
# EUNATCH: the sandbox answers so to a unix socket that was not granted, and to nothing else.
_NO_UNIX_SOCKET = re.compile(r"protocol driver not attached|EUNATCH", re.IGNORECASE)
# How programs report the end of an empty input.
_NO_INPUT = re.compile(
    r"EOF when reading|EOFError|Expecting value: line 1 column 1 \(char 0\)|end of JSON input"
    r"|unexpected end of (?:input|file)|\bstdin\b|standard input|\b(?:no|empty) input\b",
    re.IGNORECASE,
)


def with_notes(
    result: ToolResult, call: ToolCall, permit: Permit, roots: Sequence[str] = ()
) -> ToolResult:
    """Add the commands that would grant what a script may have lacked.

    What was refused is reported even if the call succeeded: a script may continue without what it
    could not fetch, or say that it found nothing, and nobody would know.
    """
    notes = _without_proxy(result, call, permit, roots)
    if not notes:
        notes = _refused(result, call, roots)
        if result.outcome in ("ok", "failed") or result.refused_network:
            notes = notes or _network(result, call, permit, roots)
        notes += _own_loopback(result, call, permit, roots)
    notes += _left_running(result, call)
    notes += notes_on_own_folder(result, call, permit, roots)
    notes += note_on_absent_paths(result, permit)
    notes += _local_sockets(result, call, permit, roots)
    notes += _others_socket(result, call, permit, roots)
    if result.outcome != "ok":
        notes += _memory(result, call, permit, roots)
    if result.outcome == "failed":
        notes += _of_failure(result, call, permit, roots)
    if is_command(call) or isinstance(call.tool.runs, Script):
        # What a script installs by itself is often what its output tells to install, too.
        found = _of_scripts(result, call, permit, roots)
        earlier = "\n".join(notes)
        notes += [note for note in found if note.rpartition(": ")[2] not in earlier]
    is_noted = notes or result.outcome == "failed"
    if is_noted and any(_OURS in text for text in (result.stdout, result.stderr)):
        notes.append(_NOT_OURS)
    return result.with_notes(notes) if notes else result


def _of_failure(
    result: ToolResult, call: ToolCall, permit: Permit, roots: Sequence[str]
) -> list[str]:
    notes = _empty_input(result, call, roots)
    notes += note_on_changed_files(result, call, permit, roots)
    notes += note_on_outside_paths(result, call, permit, roots)
    notes += note_on_renames(result, call)
    notes += _own_temporary(result, call)
    return notes + note_on_run_later(result, call, roots)


def _of_scripts(
    result: ToolResult, call: ToolCall, permit: Permit, roots: Sequence[str]
) -> list[str]:
    scripts = _scripts_of(call)
    notes = notes_on_variables(result, call, permit, roots, scripts)
    notes += note_on_home(result, call, permit, roots, scripts)
    if result.outcome != "failed":
        return notes + notes_on_packages(result, call, permit, roots, scripts)
    notes += note_on_typescript(result, call, permit, roots)
    notes += note_on_own_programs(result, call, permit, roots)
    notes += notes_on_packages(result, call, permit, roots, scripts)
    return notes + (notes_on_fetching(result, call, roots) if is_command(call) else [])


def _scripts_of(call: ToolCall) -> list[Tool]:
    """Return the script that a call runs, or those of the skill that a command names."""
    return list(scripts_named(call)) if is_command(call) else [call.tool]


def _refused(result: ToolResult, call: ToolCall, roots: Sequence[str]) -> list[str]:
    if not result.refused_hosts:
        return []
    needs = [Need(kind="host", value=host) for host in result.refused_hosts] + as_command(call)
    command = trust_command(call.tool.skill, needs, roots=roots)
    said = f"note: it was not allowed to reach {', '.join(result.refused_hosts)}"
    return [f"{said}; the user can grant it: `{command}`"]


def _without_proxy(
    result: ToolResult, call: ToolCall, permit: Permit, roots: Sequence[str]
) -> list[str]:
    """Say that a program connects by itself, so that no grant of a host helps it."""
    said = last_words(result)
    if not _runs_here(call) or call.is_unconfined:
        return []
    is_told = _says(said, (*_NO_NETWORK, *_NOBODY_THERE))
    found = _NO_PROXY.search(said) if is_told else None
    place = " port ".join(filter(None, found.groups())) if found else ""
    # Whoever uses the proxy has it look up names.
    is_past = result.outcome == "failed" and permit.access.hosts and result.refused_network
    if not place and (not is_past or result.refused_hosts):
        return []
    told = f"note: it wanted {place or 'a host'}, but not through the proxy by which tools reach"
    ways = "a program that uses the variable HTTPS_PROXY may reach it by a grant, this one does not"
    return [f"{told} hosts: {ways}; {_outside(call, roots)}"]


def _outside(call: ToolCall, roots: Sequence[str]) -> str:
    """Return what is left to a call that cannot do its work confined."""
    way = "let the user run it without Skillpouch"
    if not call.tool.home or is_command(call):
        return way
    command = trust_command(call.tool.skill, [Need(kind="unconfined")], roots=roots)
    return f"{way}, or let it do all that the user may do: `{command}`"


def _network(result: ToolResult, call: ToolCall, permit: Permit, roots: Sequence[str]) -> list[str]:
    """Name the hosts that the call looked up, or that its arguments or files of its skill name.

    Its output is untrusted, and may be a page that a tool has read: a host that is only there is
    never proposed, because whoever wrote the page may own it. One that the call looked up is what
    it wanted; if nothing else names it, that is said.
    """
    said = last_words(result)
    is_told = _says(said, _NO_NETWORK) or (result.is_error and "getaddrinfo" in said)
    if not is_told and not result.refused_network:
        return []
    if not _runs_here(call) or call.is_unconfined or permit.access.hosts:
        return []
    given = json.dumps(call.arguments, default=str)
    # Where the output tells of no network, an address in it is one like any other.
    told = _names_in(said) if is_told else []
    hosts = list(result.looked_up) or [host for host in told if _is_its_own(host, call, given)]
    in_code = [] if hosts else list(islice(_hosts_in_code(call), _MOST_HOSTS))
    # An address that is given may be all that is fetched, or only be read for a part of it.
    hosts = hosts or [host for host in _names_in(given) if host not in in_code]
    is_silent = not hosts and (result.is_error or not in_code)
    others = [host for host in result.looked_up if not _is_its_own(host, call, given)]
    if (is_silent or others) and (fetching := note_on_installing(call, permit, roots, others)):
        return fetching
    proposed = [*in_code, *hosts] or ["HOST"]
    needs = [Need(kind="host", value=host) for host in proposed] + as_command(call)
    command = trust_command(call.tool.skill, needs, roots=roots)
    if in_code:
        reason = "it wanted the network, of which it was not granted any"
        given_hosts = f", and its arguments {', '.join(hosts)}" if hosts else ""
        return [f"note: {reason}; its code names {', '.join(in_code)}{given_hosts}: `{command}`"]
    wanted = _wanted(hosts, others) or "a host that neither its files nor its arguments name"
    return [f"note: it wanted {wanted}, and was not granted any network: `{command}`"]


def _wanted(hosts: Sequence[str], others: Sequence[str]) -> str:
    """Name hosts, and say of `others` among them that only the call itself has named them."""
    own = ", ".join(host for host in hosts if host not in others)
    if not others:
        return own
    told = f"{', '.join(others)}, which neither its files nor its arguments name"
    return f"{own}, and {told}" if own else told


def _names_in(text: str) -> list[str]:
    found = dict.fromkeys(name.lower() for name in _WANTED.findall(text))
    return list(islice(found, _MOST_HOSTS))


def _hosts_in_code(call: ToolCall) -> Iterator[str]:
    """Yield each host of the addresses in the scripts of a call, and in their modules."""
    yield from dict.fromkeys(host for tool in _scripts_of(call) for host in hosts_in_code(tool))


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
    is_told = result.is_error and _NO_UNIX_SOCKET.search(last_words(result))
    if not result.refused_sockets and not is_told:
        return []
    if _socket_of_machine(call):
        return []  # another note tells that a grant would not help
    command = trust_command(call.tool.skill, [Need(kind="local-sockets")], roots=roots)
    reason = "it wanted unix sockets, of which it was not granted any"
    went_on = "" if result.is_error else ", and went on without; if its answer lacks something"
    told = (
        f"note: {reason}{went_on}{',' if went_on else ';'} the user can grant those among its own"
    )
    return [f"{told} processes: `{command}`; one of another program is not reached by that"]


def _others_socket(
    result: ToolResult, call: ToolCall, permit: Permit, roots: Sequence[str]
) -> list[str]:
    """Say that a socket of this machine is not reached, if a call that failed wanted one."""
    if not _runs_here(call) or call.is_unconfined or not result.is_error:
        return []
    path = _socket_of_machine(call, in_code=result.refused_sockets)
    told = f"note: {path} is a socket of this machine, and a confined tool reaches none but those"
    is_granted = "local-sockets" in permit.access.profiles
    if not path and is_granted and _ABOUT_SOCKETS.search(last_words(result)):
        told = "note: if it wanted a socket of another program, it reaches none, but only those"
    elif not path:
        return []
    return [f"{told} that it makes itself; {_outside(call, roots)}"]


def _own_temporary(result: ToolResult, call: ToolCall) -> list[str]:
    """Say that /tmp is its own, if it missed something there that files of its skill name."""
    said = last_words(result)
    if not _runs_here(call) or call.is_unconfined or not call.tool.home:
        return []
    seen = (str(call.terms.workspace), call.tool.home, call.tool.place)
    missed = [path for path in _IN_TEMPORARY.findall(said) if not path.startswith(seen)]
    texts = texts_of(call.tool.home).values() if missed else ()
    if not any(path in text for text in texts for path in missed):
        return []
    return ["note: its /tmp is its own, and new for each call: nothing of this machine's is there"]


def _socket_of_machine(call: ToolCall, *, in_code: bool = True) -> str:
    """Return the path of a socket that exists and that the arguments or the code name."""
    texts = sources_of(call.tool.home).values() if in_code and call.tool.home else ()
    given = _PATH.findall(json.dumps(call.arguments, default=str))
    named = [*given, *(path for text in texts for path in _SOCKET.findall(text))]
    looked_at = islice(dict.fromkeys(named), _MOST_SOCKETS)
    return next((path for path in looked_at if Path(path).is_socket()), "")


def _memory(result: ToolResult, call: ToolCall, permit: Permit, roots: Sequence[str]) -> list[str]:
    """Say how much memory the call had, and who can give it more, if that ended it."""
    most = permit.applied_to(call).limits.memory_bytes
    ran_out = result.code == "memory_limit" or _NO_MEMORY.search(last_words(result))
    if most is None or not result.protections or not ran_out:
        return []
    had, more = f"note: each of its processes may use {size_text(most)} of memory", 2 * most
    bound = getattr(call.limits.memory_bytes, "most", None)
    if bound is not None and most >= bound:
        return [f"{had}, and its project allows no more: `memory_bytes` in skillpouch.toml"]
    if call.tool.home and has_usual_memory(call.limits):
        needs = [Need(kind="memory", value=size_text(more)), *as_command(call)]
        command = trust_command(call.tool.skill, needs, roots=roots)
        return [f"{had}; the user can grant more: `{command}`"]
    rule = f"`[[limits]]` with `tools = {json.dumps([call.tool.id])}` and `memory_bytes = {more}`"
    return [f"{had}; only the user can raise it: {rule} in policy.toml"]


def _empty_input(result: ToolResult, call: ToolCall, roots: Sequence[str]) -> list[str]:
    """Say that a script reads standard input, of which the caller gave none, if that ended it."""
    runs = call.tool.runs
    is_given = call.stdin is not None or call.arguments.get("data")
    if not isinstance(runs, Script) or not call.tool.home or is_given:
        return []
    # A shell ends at a `read` that finds nothing (`set -e`), and says nothing.
    is_silent = runs.language == "shell" and not result.stderr.strip()
    if not is_silent and not _NO_INPUT.search(last_words(result)):
        return []
    text = texts_of(call.tool.home).get(os.path.relpath(runs.file, call.tool.home), "")
    if not reads_input(text, runs.language):
        return []
    words = ["skillpouch", "call", call.tool.id, "--stdin"]
    words += [word for root in roots for word in ("--root", root)]
    told = "note: it reads its standard input, in which there was nothing for it; give it what it"
    command = f"printf '%s\\n' TEXT | {shlex.join(words)}"
    return [f"{told} reads with `stdin=`, or on a terminal: `{command}`"]


def _own_loopback(
    result: ToolResult, call: ToolCall, permit: Permit, roots: Sequence[str]
) -> list[str]:
    """Explain that 127.0.0.1 is the call's own, if it found nobody there."""
    is_own = "loopback" in result.protections.get("profiles", "").split("+")
    is_alone = result.found_nobody or _says(last_words(result), _NOBODY_THERE)
    if not is_own or permit.access.hosts or not is_alone:
        return []
    told = "note: 127.0.0.1 is its own: it reaches no server of this machine; the user can grant"
    port = _port_named(result, call, permit)
    needs = [Need(kind="host", value=f"localhost:{port or 'PORT'}"), *as_command(call)]
    command = trust_command(call.tool.skill, needs, roots=roots)
    return [f"{told} one{'' if port else ' by its port'}: `{command}`"]


def _port_named(result: ToolResult, call: ToolCall, permit: Permit) -> str:
    """Return the port of this machine that the call wanted, "" if it is not known.

    Its arguments or its code name it; or its output does, and files of it have that number.
    """
    given = json.dumps(call.arguments, default=str)
    sources = sources_of(call.tool.home).values() if call.tool.home else ()
    for text in (given, *sources):
        if found := _LOCAL.search(text):
            return str(found[1])
    told: list[str] = [one or two for one, two in _ADDRESS.findall(last_words(result))]
    texts = texts_of(call.tool.home).values() if call.tool.home and told else ()
    packages = permit.access.packages if told else ()
    code = (text for name in packages for text in texts_of_package(split_package(name)[0]))
    for text in chain((given,), texts, code):
        for port in told:
            if re.search(rf"(?<![\w.]){port}(?!\w|\.\d)", text):
                return port
    return ""


_INTERPRETERS = {"python": "python3", "shell": "bash", "javascript": "node"}


def _left_running(result: ToolResult, call: ToolCall) -> list[str]:
    """Say that what a call left running has ended with it, and what can be done instead."""
    runs = call.tool.runs
    if result.left_running == "processes":
        told = "note: it left processes running in the background, which ended with the call"
        job = f"`skillpouch call {call.tool.id} --background`"
        way = f"; one that stays in the foreground can go on as a job: {job}"
        return [f"{told}{way if isinstance(runs, Script) else ''}"]
    if not result.left_running:
        return []
    left = "it left a server running" if result.outcome == "ok" else "it runs a server"
    told = f"note: {left}, which ended with the call, and which only the call itself could reach"
    ways = ["start it and use it in one command"]
    if call.tool.home and not is_command(call):
        ways[0] += " of `run_for_skill`"
    if isinstance(runs, Script):
        program = _INTERPRETERS.get(runs.language, runs.language)
        words = shlex.join((program, runs.file)) + (" …" if call.arguments else "")
        same = ", with the same words" if call.arguments else ""
        ways.append(f"let the user start it without Skillpouch{same}: `{words}`")
    return [f"{told}; {', or '.join(ways)}"]


def _runs_here(call: ToolCall) -> bool:
    return isinstance(call.tool.runs, Script | InlineScript | Binary) or is_command(call)


def _says(text: str, messages: Iterable[str]) -> bool:
    return any(message in text for message in messages)
