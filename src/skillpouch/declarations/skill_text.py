"""What the text of a SKILL.md says about the files of its skill: which it runs, what each does."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from posixpath import normpath
from typing import NamedTuple

from skillpouch.signatures.shebang import EXTENSIONS, language_of
from skillpouch.signatures.signature import LONGEST_DESCRIPTION
from skillpouch.signatures.usage_lines import run_words

_QUOTES = "\"'`"
_PLACEHOLDER = re.compile(r"\$\w+|\$?\{[^{}]*\}|<[^<>]*>|\[[^\[\]]*\]|~|\.{1,2}|")
_SKIPPED = frozenset({"node_modules", "__pycache__", ".git", ".venv", "venv"})
_EXTENSION = re.compile(rf"\.(?:{'|'.join(each[1:] for each in EXTENSIONS)})(?!\w)")
_WORD_BEFORE = re.compile(r"[^\s\"'`()|=]*$")
_RUN_IN_PROSE = re.compile(
    r"\b(?:run|runs|running|execute|executes|invoke|start|launch)\b[ \t]+(?:the[ \t]+script[ \t]+)?"
    r"`(\./[^`\s]{1,300})[^`\n]{0,300}`",
    re.IGNORECASE,
)


class Mention(NamedTuple):
    """A text of the body, and its line there; the first line is 1."""

    text: str
    line: int


class RunFiles(NamedTuple):
    """The scripts that a text runs by name, path → line, and the folders they were sought in."""

    lines: dict[str, int]
    folders: set[str]


def files_run(body: str, home: str) -> RunFiles:
    """Return each script outside scripts/ that the text runs by name, relative to the skill.

    No link is followed here: one may still lead out of the skill.
    """
    found = RunFiles({}, set())
    if not _may_run(body, home):
        return found
    for word, shown in _words_run(body):
        for path in _meant(word, home):
            found.folders.add(path.rpartition("/")[0])
            if Path(f"{home}/{path}").is_file() and not _in_other_skill(path, home):
                place = body.find(shown)
                line = body.count("\n", 0, place if place >= 0 else body.find(word)) + 1
                found.lines.setdefault(path, line)
                break
    return found


def _may_run(body: str, home: str) -> bool:
    """Tell whether the text has a word for a script at the place of one: most texts have none.

    Reading the commands of a text takes ten times as long.
    """
    ends = [match.end() for match in _EXTENSION.finditer(body)]
    if not ends:
        return False
    words = {_WORD_BEFORE.search(body, max(0, end - 200), end).group() for end in ends}  # type: ignore[union-attr]  # `$` matches
    with os.scandir(home) as entries:
        tops = {entry.name for entry in entries} - {"scripts"}
    return any(not tops.isdisjoint(word.split("/")) for word in words)


def _words_run(body: str) -> Iterator[tuple[str, str]]:
    yield from run_words(body)
    yield from ((match.group(1), match.group()) for match in _RUN_IN_PROSE.finditer(body))


def _is_script(path: str) -> bool:
    return language_of(path) is not None


def _meant(word: str, home: str) -> Iterator[str]:
    """Yield the files outside scripts/ that a word may mean, the likeliest first.

    `tools/x.py` is relative to the skill; of `$SKILL_DIR/tools/x.py`, `~/any/where/tools/x.py` and
    `skills/name/tools/x.py` the beginning is left out.
    """
    parts = [part for part in word.strip(_QUOTES).split("/") if part != "."]
    name = home.rpartition("/")[2]
    begins = [0]
    for position, part in enumerate(parts[:-1]):
        is_elsewhere = word.lstrip(_QUOTES).startswith(("/", "~"))
        if _PLACEHOLDER.fullmatch(part) or part == name or is_elsewhere:
            begins.append(position + 1)
    for begin in begins:
        path = normpath("/".join(parts[begin:]) or ".")
        if _is_own(path):
            yield path


def _is_own(path: str) -> bool:
    folders = path.split("/")[:-1]
    return (
        _is_script(path)
        and not path.startswith(("/", "../", "scripts/"))
        and "\0" not in path
        and _SKIPPED.isdisjoint(folders)
    )


def _in_other_skill(path: str, home: str) -> bool:
    """Tell whether a folder on the way is a skill itself, or a virtual environment."""
    folder = path.rpartition("/")[0]
    while folder:
        names = {entry.name.lower() for entry in Path(f"{home}/{folder}").iterdir()}
        if names & {"skill.md", "pyvenv.cfg"}:
            return True
        folder = folder.rpartition("/")[0]
    return False


_LONGEST_BODY = 500_000
_FENCE = re.compile(r"[ \t]*(?:`{3,}|~{3,})")
_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,3}[.)])[ \t]+(.*)")
_HEADING = re.compile(r"#{1,6}[ \t]+(.*)")
_TREE = re.compile(r"^[\s│├└─|`+-]*")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()]*\)")
_MARKS = re.compile(r"\*\*|__|`|(?<!\w)[*_](?=\S)|(?<=\S)[*_](?!\w)")
_SENTENCE_END = re.compile(r"(?<=[.!?])[ \t]+(?=[A-Z`*\[(])")
_AFTER_NAME = re.compile(
    r"[\s`*_)\]]*(?:\([^()]*\)[\s`*_]*)?(?:[-:=\u2013\u2014\u2192]+|#)[\s*_]*(.+)"
)
# Sections about what goes wrong, and items about one message: `"Not found": run x.sh first`.
_TROUBLE = re.compile(
    r"troubleshoot|\bfaq\b|error messages"
    r"|(?:common|known|frequent|possible) (?:\w+ )?(?:errors|issues|problems|mistakes|failures)",
    re.IGNORECASE,
)
_MESSAGE = re.compile(r"""[*_]*["'\u201c][^"'\u201d]+["'\u201d][*_]*\s*[:\u2013\u2014\u2192-]""")
# `$CLIENT` (by default `scripts/x.js`): the words after it are about the script.
_OTHER_NAME = re.compile(r"[*_]*`[^`]+`[*_]*\s*\([^()]*")
_TO_READER = re.compile(r"\byou(?:rs?)?\b", re.IGNORECASE)
_EMPTY = re.compile(r"\(\W*\)")  # what is left of a name in parentheses
_CODE_SPAN = re.compile(r"`[^`]*`")
_FEWEST_LETTERS = 8


def said_about(body: str, script: str) -> Mention | None:
    """Return what the text says about a script: a table row, list item, heading or sentence.

    A name that stands for several files of the text says nothing about one of them.
    """
    base = script.rpartition("/")[2]
    if base not in body:
        return None
    name = re.compile(rf"(?<![\w.-])(?:[\w.${{}}<>~-]*/)*{re.escape(base)}(?![\w-])(?!\.\w)")
    found = [
        (rank, Mention(text[:LONGEST_DESCRIPTION].rstrip(), line))
        for rank, text, line in _mentions(body[:_LONGEST_BODY], name, script)
        if _says_something(text)
    ]
    return min(found, key=lambda each: (each[0], each[1].line))[1] if found else None


def _mentions(body: str, name: re.Pattern[str], script: str) -> Iterator[tuple[int, str, int]]:
    """Yield a rank, the best first, the words and the line of each mention."""
    lines = body.split("\n")
    used: list[int] = []  # the lines of commands that run it
    for number, match, fenced in _places(lines, name):
        line, after = lines[number - 1], lines[number - 1][match.end() :]
        if not _means(match.group(), script):
            continue
        if not fenced:
            yield from _in_text(lines, number, match)
        elif _TREE.sub("", line[: match.start()]):
            used.append(number)
        elif "#" in after:  # `├── x.py  # Extracts text`
            yield 2, _plain(after.partition("#")[2]), number
    # A remark above one of several commands is about that one, not about the script.
    if len(used) == 1:
        yield from _above(lines, used[0])


def _places(lines: list[str], name: re.Pattern[str]) -> Iterator[tuple[int, re.Match[str], bool]]:
    """Yield each line with the name, and whether it is in a block of code; not about trouble."""
    fenced, trouble = False, 0  # the level of the heading above, if it is about trouble
    for number, line in enumerate(lines, 1):
        if _FENCE.match(line):
            fenced = not fenced
            continue
        if not fenced and line.startswith("#"):
            trouble = _trouble(line, trouble)
        match = None if trouble else name.search(line)
        if match is not None:
            yield number, match, fenced


def _trouble(heading: str, level: int) -> int:
    """Return the level of the heading that begins a section about trouble; 0 outside of one."""
    own = len(heading) - len(heading.lstrip("#"))
    if level and own > level:
        return level
    return own if _TROUBLE.search(heading) else 0


def _means(written: str, script: str) -> bool:
    """Tell whether a path in the text may be this script: no folder of it is another one."""
    own = [part for part in written.split("/")[:-1] if not _PLACEHOLDER.fullmatch(part)]
    folders = script.split("/")[:-1]
    return not own or not folders or own[-1] == folders[-1]


def _above(lines: list[str], number: int) -> Iterator[tuple[int, str, int]]:
    """Yield the remark above a command; one that speaks to the reader is about its words."""
    remark = lines[number - 2].strip() if number > 1 else ""
    if remark.startswith("# ") and not _TO_READER.search(remark):
        yield 4, _plain(remark.lstrip("# ")), number - 1


def _in_text(lines: list[str], number: int, match: re.Match[str]) -> Iterator[tuple[int, str, int]]:
    line = lines[number - 1]
    after = _AFTER_NAME.match(line, match.end())
    if line.lstrip().startswith("|"):
        cells = [cell for cell in line.strip().strip("|").split("|") if match.group() not in cell]
        yield 0, _plain(max(cells, key=len, default="")), number
    elif heading := _HEADING.match(line):
        title = _EMPTY.sub("", heading.group(1).replace(match.group(), ""))
        yield 3, _plain(after.group(1) if after else title), number
        below = next((text for text in lines[number : number + 3] if text.strip()), "")
        if below and not below.lstrip().startswith(("#", "|", "`", "-", "*", ">", "<")):
            yield 1, _plain(_SENTENCE_END.split(below.strip())[0]), number
    elif (item := _ITEM.match(line)) and after and _begins(item.group(1), match.group()):
        yield 0, _plain(after.group(1)), number
    elif not _MESSAGE.match(item.group(1) if item else line.lstrip()):
        sentence = _sentence(line, match.start())
        if _says_something(_CODE_SPAN.sub("", sentence)):  # not only a command to run
            yield 3, _plain(sentence), number


def _says_something(text: str) -> bool:
    return sum(map(str.isalpha, text)) >= _FEWEST_LETTERS and " " in text.strip()


def _begins(item: str, written: str) -> bool:
    if item.lstrip("*_`[ ").startswith(written):
        return True
    return _OTHER_NAME.fullmatch(item.partition(written)[0]) is not None


def _sentence(line: str, position: int) -> str:
    begin = 0
    for end in _SENTENCE_END.finditer(line):
        if end.start() > position:
            return line[begin : end.start()]
        begin = end.end()
    return line[begin:]


def _plain(text: str) -> str:
    """Return Markdown as one line of words."""
    item = _ITEM.match(text)
    words = _MARKS.sub("", _LINK.sub(r"\1", item.group(1) if item else text))
    return " ".join(words.split()).strip(" :-|>\u2013\u2014")
