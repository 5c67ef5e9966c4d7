"""Reads one command line that a person wrote: which script of a skill it runs, with which words."""

import posixpath
import re
from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import NamedTuple

from skillpouch.signatures.command_line import CommandLineError
from skillpouch.signatures.shebang import Language


class Invocation(NamedTuple):
    """A script that a line runs, by its path in the skill, and the words that it is given.

    `sets` are the variables that the line sets before it.
    """

    script: str
    words: tuple[str, ...]
    sets: tuple[str, ...] = ()


class SkillFolder(NamedTuple):
    """The folder of a skill, under all its names.

    `home` is where a call finds it, `place` where it lies, if that is elsewhere; `skill` is the
    name of the skill, with that of its plugin.
    """

    home: str
    place: str = ""
    skill: str = ""

    @property
    def names(self) -> frozenset[str]:
        """What the last folder of a path to it may be called."""
        paths = (self.place or self.home, self.skill.rpartition(":")[2])
        return frozenset(filter(None, (path.rpartition("/")[2] for path in paths)))


def invocation_in(
    line: str, scripts: Mapping[str, Language | None], folder: SkillFolder
) -> Invocation:
    """Return the script that a line runs; raise CommandLineError for more than a plain call.

    `scripts` are paths in the skill and their languages. Nothing is expanded but the many ways to
    write the skill's folder: `{baseDir}`, `$SKILL_DIR`, `~/.claude/skills/pdf` …
    """
    commands = list(_split(line))
    reader = _Reader(scripts, folder, commands)
    runs = [reader.run_in(each.texts) for each in commands]
    main = next((place for place, found in enumerate(runs) if found), None)
    if main is None:
        raise reader.refused(commands)
    position, script = runs[main] or (0, "")
    words = commands[main].words
    try:
        _refuse_more(commands, main, reader.elsewhere)
        before = words[position].text.removesuffix(script).rstrip("/")
        given = [_literal(word, before, folder.home) for word in words[position + 1 :]]
    except CommandLineError as error:
        raise CommandLineError(*error.problems, script=script) from None
    leading = [word for each in commands for word in _before_program(each.texts)]
    sets = [word.partition("=")[0] for word in leading if "=" in word]
    return Invocation(script, tuple(given), tuple(sets))


def names_skill_folder(text: str, rest: str = "") -> bool:
    """Tell whether `{baseDir}`, `$SKILL_DIR`, `<path-to-skill>` … stands for a skill's folder.

    `rest` is what follows: `<skill>` and `SKILL_PATH` stand for it only in a path.
    """
    named = _NAMES_FOLDER.fullmatch(text)
    return named is not None and _is_skill_folder(named, rest)


class _Word(NamedTuple):
    """A word as a shell reads it; `expands` is what a shell would replace in it, "" for nothing."""

    text: str
    expands: str = ""


class _Command(NamedTuple):
    """The words of a command, and the operator after it."""

    words: list[_Word]
    operator: str = ""

    @property
    def texts(self) -> list[str]:
        return [word.text for word in self.words]


_PROMPT = re.compile(r"^[$%>][ \t]+")
# A line break, or what ends a command; a redirection; `<input>` is written for people to replace.
_BLANK = re.compile(r"(?:[ \t]|\\\n)+|(?<!\S)#[^\n]*")
_HARMLESS = re.compile(r"2>[ \t]*(?:&1|/dev/null)")
_ENDS_COMMAND = re.compile(r"&&|\|\||[;|&\n]")
_PIECES = re.compile(
    r"""'(?P<single>[^']*)'|"(?P<double>(?:[^"\\]|\\.)*)"|\\(?P<escaped>.)
    |(?P<placeholder><[A-Za-z][\w ./|:-]*>)|(?P<redirection>\d*[<>]+&?|[()])
    |(?P<expanded>[$`*?]|~(?=/|\s|$))|(?P<plain>[^\s'"\\$`*?<>()|&;]+)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPED_IN_QUOTES = re.compile(r'\\([$`"\\])')
_BRACES = re.compile(r"\{[^{}]*(?:,|\.\.)[^{}]*\}")
_TEMPLATE = re.compile(r"\{\{?[A-Za-z][\w -]*\}\}?|\[[^\[\]]*\]")
_NAMES_FOLDER = re.compile(
    r"\$\{(?P<braced>\w+)\}|\$(?P<bare>\w+)|\{+(?P<template>[\w -]+)\}+|<(?P<told>[\w -]+)>"
    r"|(?P<capitals>[A-Z][A-Z_]{3,})"
)
_OF_SKILL = re.compile(r"skill\w*(?:dir|path|root|home|base|folder)|(?:path|dir)\w*skill|basedir")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=", re.ASCII)
_QUOTING = "\"'`()"
_FOR_A_SHELL = "for a shell: a call runs one script and no shell"
_NOTHING = ("env", "exec", "export")
_FAILS_EARLY = re.compile(r"-[eux]*o?|pipefail")


def _split(line: str) -> Iterator[_Command]:
    """Yield the commands of a line; raise CommandLineError for what only a shell could do."""
    command: list[_Word] = []
    at, text = 0, _PROMPT.sub("", line.strip())
    while at < len(text):
        if skipped := _BLANK.match(text, at) or _HARMLESS.match(text, at):
            at = skipped.end()
        elif ended := _ENDS_COMMAND.match(text, at):
            at = ended.end()
            if command:
                yield _Command(command, ended[0])
            command = []
        else:
            word, at = _read_word(text, at)
            command.append(word)
    if command:
        yield _Command(command)


def _read_word(text: str, at: int) -> tuple[_Word, int]:
    written, expands = "", ""
    while piece := _PIECES.match(text, at):
        kind, at = piece.lastgroup, piece.end()
        found = piece[kind or 0]
        if kind == "redirection":
            raise CommandLineError(f"{found!r} is {_FOR_A_SHELL}")
        if kind == "double":
            expands += "".join(re.findall(r"(?<!\\)[$`]", found))
            found = _ESCAPED_IN_QUOTES.sub(r"\1", found)
        elif kind in ("expanded", "placeholder"):
            expands += found
        elif kind == "plain":
            expands += "".join((_BRACES if _BRACES.search(found) else _TEMPLATE).findall(found))
        written += found
    if at == len(text) or text[at] in " \t\n;&|":
        return _Word(written, expands), at
    raise CommandLineError(f"a quote is never closed in {text!r:.80}")


def _literal(word: _Word, before: str, home: str) -> str:
    """Return the text of a word; the folder of the skill is put in where the line names it.

    `before` is what the line writes before its script.
    """
    if not word.expands:
        return word.text
    flag, equals, value = word.text.partition("=")
    if equals and flag.startswith("-"):
        return f"{flag}={_literal(_Word(value, word.expands), before, home)}"
    if len(before) > 1 and word.text.startswith(f"{before}/"):
        rest = word.text[len(before) :]
        if not re.search(r"[$`*?<>{}\[\]]", rest):
            return f"{home}{rest}"
    named = _NAMES_FOLDER.match(word.text)
    rest = word.text[named.end() :] if named else ""
    if named and _is_skill_folder(named, rest) and not re.search(r"[$`*?<>{}\[\]]", rest):
        return f"{home}{rest}"
    raise CommandLineError(
        f"{word.text!r:.80} is to be replaced, by a shell or by you: write the value itself"
    )


def _is_skill_folder(named: re.Match[str], rest: str) -> bool:
    name = re.sub(r"[\W_]", "", named[named.lastgroup or 0]).lower()
    if named.lastgroup == "capitals" or (name == "skill" and named.lastgroup != "bare"):
        return rest.startswith("/") and (name == "skill" or _OF_SKILL.fullmatch(name) is not None)
    return _OF_SKILL.search(name) is not None


def _refuse_more(commands: list[_Command], main: int, elsewhere: str) -> None:
    """Refuse what a line does beside its call: other commands, pipes, going to other folders."""
    for place, command in enumerate(commands):
        if place != main and not (place < main and _prepares(command.texts)):
            text = " ".join(command.texts)
            problem = f"{text!r:.80} is another command: a call runs one script and no shell"
            raise CommandLineError(problem)
    for _, operator in commands:
        if operator in ("|", "||", "&"):
            raise CommandLineError(f"{operator!r} is {_FOR_A_SHELL}")
    if elsewhere:
        raise CommandLineError(
            f"the line goes to {elsewhere!r:.80}, and a call runs in the workspace: "
            "leave the cd out, and write paths from the workspace"
        )


def _prepares(words: list[str]) -> bool:
    """Tell whether a command may stand before the call: where it goes and what it sets is read."""
    if words[0] == "set":
        return all(_FAILS_EARLY.fullmatch(word) for word in words[1:])
    return words[0] == "cd" or (words[0] == "export" and words == _before_program(words))


class _Runner(NamedTuple):
    """What starts scripts of some languages, and the options with which it does nothing else.

    A `valued` option is matched with the word after it. What `launches` may start another of these.
    """

    languages: tuple[Language, ...]
    options: re.Pattern[str] = re.compile(r"(?!)")
    valued: re.Pattern[str] = re.compile(r"(?!)")
    launches: bool = False

    def after_options(self, words: list[str], at: int) -> int:
        """Return the position of the first word that is none of its options."""
        while at < len(words):
            if self.options.fullmatch(words[at]):
                at += 1
            elif self.valued.fullmatch(" ".join(words[at : at + 2])):
                at += 2
            else:
                break
        return at


_PYTHON = _Runner(("python",), re.compile(r"-[uBqsEIP]+"))
_SHELL = _Runner(("shell",), re.compile(r"--no(?:rc|profile)"))
_NODE = _Runner(
    ("javascript", "typescript"),
    re.compile(
        r"--no-(?:warnings|deprecation)|--enable-source-maps|--experimental-[\w-]+"
        r"|--max-old-space-size=\d+|-A|--allow-[\w-]+(?:=.*)?"
    ),
    re.compile(r"(?:--import|--loader|--require|-r) (?:tsx|ts-node)(?:/.*)?"),
)
# Beside the script they bring packages, which a call has by its grants.
_PYTHON_LAUNCHER = _Runner(
    ("python",),
    re.compile(
        r"--script|-s|--quiet|-q|--no-(?:project|sync|cache|dev)|-n|--isolated|--frozen|--locked"
        r"|--offline|--active|--all-extras|--(?:with|python|project|extra|group)=.*"
    ),
    re.compile(
        r"(?:--with(?:-requirements|-editable)?|-w|--python|-p|--project|--package|--extra|--group"
        r"|--index|--index-url|--cache-dir) .*"
    ),
    launches=True,
)
_NODE_LAUNCHER = _Runner(
    (),
    re.compile(r"-y|--yes|-q|--quiet|--no-install|--package=.*"),
    re.compile(r"(?:-p|--package) .*"),
    launches=True,
)
_RUNNERS = {
    **dict.fromkeys(("python", "py", "pypy"), _PYTHON),
    **dict.fromkeys(("bash", "sh", "zsh", "dash", "ksh"), _SHELL),
    **dict.fromkeys(("node", "nodejs", "tsx", "ts-node", "bun", "bun run"), _NODE),
    **dict.fromkeys(("deno", "deno run"), _NODE),
    "ruby": _Runner(("ruby",), re.compile(r"-w")),
    "perl": _Runner(("perl",), re.compile(r"-w")),
    **dict.fromkeys(("uv run", "poetry run", "pipenv run"), _PYTHON_LAUNCHER),
    **dict.fromkeys(("npx", "bunx", "pnpm exec", "pnpm dlx"), _NODE_LAUNCHER),
}


class _Reader:
    """Finds which of the scripts of a skill a command runs, from a folder that a line entered."""

    def __init__(
        self, scripts: Mapping[str, Language | None], folder: SkillFolder, commands: list[_Command]
    ) -> None:
        self._scripts = scripts
        self._folder = folder
        self._entered = ""
        self.elsewhere = ""  # the folder outside the skill to which the line goes
        for words, _ in commands:
            if words[0].text == "cd" and len(words) > 1:
                self._enter(words[-1].text)

    def run_in(self, words: list[str]) -> tuple[int, str] | None:
        """Return position and path of the script that a command runs, None if it runs none."""
        runner, at = _runner_of(words)
        is_module = runner is not None and "python" in runner.languages and words[at:][:1] == ["-m"]
        at += is_module
        if at >= len(words):
            return None
        word = f"{words[at].replace('.', '/')}.py" if is_module else words[at]
        script = self._meant(word)
        language = self._scripts.get(script)
        fits = runner is None or language is None or language in runner.languages
        return (at, script) if script and fits else None

    def refused(self, commands: list[_Command]) -> CommandLineError:
        """Return why no command of a line is the call of a script."""
        for words in ([word.text for word in each.words] for each in commands):
            for position, word in enumerate(words):
                if script := self._meant(word):
                    before = " ".join(words[:position])
                    problem = f"{before!r:.80} does not just run {script}: begin the line with that"
                    return CommandLineError(problem, script=script)
                path = word.strip(_QUOTING)
                if script := next((one for one in self._scripts if path.endswith(f"/{one}")), ""):
                    problem = f"{path!r:.80} is not the {script} of the skill: write {script}"
                    return CommandLineError(problem, script=script)
        return CommandLineError("the line runs none of its scripts")

    def _enter(self, path: str) -> None:
        folders = [posixpath.dirname(script) for script in self._scripts]
        for inside in self._inside(path):
            if any(f"/{each}/".find(f"/{inside}/") >= 0 for each in folders) or not inside:
                self._entered = inside
                return
        self.elsewhere = path

    def _meant(self, path: str) -> str:
        """Return the script that a path means, "" for none."""
        for inside in self._inside(path):
            if inside in self._scripts:
                return inside
            below = [one for one in self._scripts if one.endswith(f"/{inside}")] if inside else []
            if len(below) > 1:
                raise CommandLineError(f"{inside!r} may be {' or '.join(below)}")
            if below:
                return below[0]
        return ""

    def _inside(self, written: str) -> Iterator[str]:
        """Yield the paths in the skill that a path may mean, the likeliest first."""
        path = written.strip(_QUOTING)
        for own in filter(None, (self._folder.home, self._folder.place)):
            if f"{path}/".startswith(f"{own}/"):
                yield path[len(own) :].strip("/")
        named = _NAMES_FOLDER.match(path)
        rest = path[named.end() :] if named else ""
        if named and (_is_skill_folder(named, rest) or self._is_plugin(named)):
            yield path[named.end() :].strip("/")
        if path[:1] not in ("/", "~", "$", "{", "<"):
            below = posixpath.normpath(f"{self._entered or '.'}/{path}")
            if below.partition("/")[0] != "..":
                yield below.removeprefix(".")
        parts = path.split("/")
        is_skill = [
            at
            for at, part in enumerate(parts)
            if part in self._folder.names
            and (parts[0] or "skills" in parts[:at] or parts[:3] == ["", "path", "to"])
        ]
        if is_skill:
            yield "/".join(parts[is_skill[-1] + 1 :])

    def _is_plugin(self, named: re.Match[str]) -> bool:
        """Tell whether the root of a plugin is meant, for a skill that is a plugin of its own."""
        return named[named.lastgroup or 0] == "CLAUDE_PLUGIN_ROOT" and ":" not in self._folder.skill


def _runner_of(words: list[str]) -> tuple[_Runner | None, int]:
    """Return what a command runs a script by, None for the script itself, and where that stands."""
    at = len(_before_program(words))
    found: _Runner | None = None
    while at < len(words) and (found is None or found.launches):
        program = words[at].strip(f"{_QUOTING}${{}}").rpartition("/")[2].lower()
        name = re.sub(r"[\d.]+$", "", program)
        two = _RUNNERS.get(" ".join((name, *words[at + 1 : at + 2])))
        following = two or _RUNNERS.get(name)
        if following is None:
            break
        found, at = following, following.after_options(words, at + (2 if two else 1))
    return found, at


def _before_program(words: list[str]) -> list[str]:
    """Return the words before a program that change nothing, and the variables that are set."""
    return list(takewhile(lambda word: word in _NOTHING or bool(_ASSIGNMENT.match(word)), words))
