"""Tells what a script is for: whether it may read any input, and what a mere library defines.

Everything is judged by words of the text, comments included: a word that could read the command
line or standard input is enough for doubt, and in doubt a script reads input.
"""

import re
import shlex
from collections.abc import Iterable
from typing import NamedTuple

from skillpouch.signatures.shebang import Language
from skillpouch.signatures.shell.scan import ShellCommand, ShellFacts, scan_shell
from skillpouch.signatures.signature import reads_input

_MOST_NAMES = 3
_DEFINITIONS: dict[Language, re.Pattern[str]] = {
    "python": re.compile(r"^(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)", re.MULTILINE),
    "shell": re.compile(r"^[ \t]*(?:function[ \t]+)?([\w:.-]+)[ \t]*\([ \t]*\)", re.MULTILINE),
    "javascript": re.compile(
        r"^(?:export[ \t]+)?(?:default[ \t]+)?(?:declare[ \t]+)?(?:async[ \t]+)?"
        r"(?:function\*?|class|const|let|var|interface|type|enum)[ \t]+(\w+)",
        re.MULTILINE,
    ),
    "ruby": re.compile(r"^[ \t]*(?:def|class|module)[ \t]+([\w.:]+)", re.MULTILINE),
    "perl": re.compile(r"^[ \t]*(?:sub|package)[ \t]+([\w:]+)", re.MULTILINE),
}
_DEFINITIONS["typescript"] = _DEFINITIONS["javascript"]


class LibraryContents(NamedTuple):
    """What a file has that runs nothing: in words, and the line where that begins."""

    words: str
    line: int | None = None


def what_it_defines(text: str, language: Language) -> LibraryContents:
    """Return the evidence that a file without an entry is a library."""
    if not text.strip():
        return LibraryContents("the file is empty")
    found = list(_DEFINITIONS[language].finditer(text))
    if not found:
        return LibraryContents("it has only comments, imports or values")
    names = list(dict.fromkeys(match.group(1) for match in found))
    more = len(names) - _MOST_NAMES
    said = ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
    return LibraryContents(f"it only defines {said}", text.count("\n", 0, found[0].start(1)) + 1)


def reads_nothing(text: str, language: Language, imports: Iterable[str]) -> bool:
    """Tell whether a script certainly reads neither its words nor its standard input.

    Of the modules that it imports, those of its own skill are not looked at here.
    """
    if any(each in text for each in _ANYWHERE):
        return False
    if language == "shell":
        return _shell_reads_nothing(text)
    if language == "python":
        return _python_reads_nothing(text, imports)
    return not _DOUBTFUL[language].search(text)


def reads_lines(text: str, language: Language) -> bool:
    """Tell whether a script reads the lines of its standard input, and certainly no JSON."""
    reads = _READS_LINES[language].search(text) and reads_input(text, language)
    return bool(reads) and _STRUCTURED.search(text) is None


_STRUCTURED = re.compile(r"json|yaml|\bjq\b|\btoml|TOOL_ARG|literal_eval", re.IGNORECASE)
_NODE_LINES = re.compile(
    r"""\binput\s*:\s*process\.stdin\b|\bof\s+process\.stdin\b|\bsplit\(\s*["'`/](?:\\r\??)?\\n"""
)
_READS_LINES: dict[Language, re.Pattern[str]] = {
    "python": re.compile(
        r"\bin\s+(?:enumerate\s*\(\s*)?sys\.stdin\b(?!\s*\.\s*read\b)"
        r"|\bsys\.stdin\s*\.\s*readlines?\b|\.split(?:lines)?\s*\("
    ),
    "shell": re.compile(r"(?:^|;)[ \t]*while[ \t]+(?:IFS=\S*[ ])?read\b", re.MULTILINE),
    "javascript": _NODE_LINES,
    "typescript": _NODE_LINES,
    "ruby": re.compile(r"(?:\$stdin|\bSTDIN|\bARGF)\.(?:each|readlines?\b|map)|\blines\b"),
    "perl": re.compile(r"\bwhile\s*\([^()]*<(?:STDIN)?>|@\w+\s*=\s*<(?:STDIN)?>"),
}


def _python_reads_nothing(text: str, imports: Iterable[str]) -> bool:
    tops = {module.partition(".")[0] for module in imports}
    if not tops.isdisjoint(_PYTHON_MODULES) or any(each in text for each in _PYTHON_WORDS):
        return False
    if any(word in text and doubtful.search(text) for word, doubtful in _PYTHON_DOUBTS.items()):
        return False
    if "sys.path" in text and _OTHER_FOLDER.search(text):
        return False  # its modules may lie anywhere
    return "subprocess" not in text or _starts_only_deaf_programs(text)


# Files and variables by which any language could read what it was given.
_ANYWHERE = ("/dev/stdin", "/dev/fd", "/dev/tty", "/proc/self", "/proc/thread-self", "TOOL_ARG")

# Modules that read the command line, ask a person, or load code that could.
_PYTHON_MODULES = frozenset(
    {
        *("argparse", "optparse", "getopt", "fileinput", "getpass", "cmd", "code", "pdb"),
        *("unittest", "doctest", "runpy", "importlib", "imp", "pty", "pytest", "click", "typer"),
        *("fire", "docopt", "absl", "tyro", "plac", "cyclopts", "cleo", "cliff", "invoke", "hydra"),
        *("jsonargparse", "configargparse", "simple_parsing", "tap", "questionary", "inquirer"),
        *("InquirerPy", "prompt_toolkit", "curses", "readline", "streamlit", "gradio", "mcp"),
        *("fastmcp", "IPython", "clize", "argh", "rich_click", "asyncclick"),
    }
)
_PYTHON_WORDS = (
    *("argv", "raw_input", "fileinput", "breakpoint(", "__import__", "create_subprocess_"),
    *("connect_read_pipe", "LightningCLI", "HfArgumentParser", "rich.prompt", "Prompt.ask"),
    *("Confirm.ask", "from subprocess", "from os import", "subprocess as"),
)
# By a word that each begins with: finding that first takes a hundredth of the time.
_PYTHON_DOUBTS = {
    "stdin": re.compile(r"stdin(?!\s*=[^=])"),
    "input": re.compile(r"input(?<!\winput)\s*\("),
    "open": re.compile(r"open\s*\(\s*(?:file\s*=\s*)?0\b"),
    "exec": re.compile(r"exec(?:file)?(?<![.\w]exec)(?<![.\w]execfile)\s*\("),
    "eval": re.compile(r"eval(?<![.\w]eval)\s*\("),
    "compile": re.compile(r"compile(?<![.\w]compile)\s*\("),
    "os": re.compile(
        r"os(?<!\wos)\s*\.\s*(?:read|exec\w*|spawn\w*|posix_spawn\w*|system|popen|fork\w*)\s*\("
    ),
    "environ": re.compile(r"environ\s*\.\s*(?:items|keys|values)\b"),
}
_DOUBTFUL: dict[Language, re.Pattern[str]] = {
    "javascript": re.compile(
        r"""\bstdin\b|\bargv\b(?!\[1\])|\bargv0\b|\bDeno\b|\bBun\b|["'`]inherit["'`]|\breadline\b
        |\b(?:readFileSync|readSync|createReadStream|openSync|readFile)\s*\(\s*(?:null\s*,\s*\{[^}]*)?
            (?:0\b|fd)
        |\b(?:prompt|confirm|eval)\s*\(|\bnew\s+Function\b|\binquirer\b|\bprompts\b|\benquirer\b
        |\b(?:import|require)\s*\(\s*[^"'`\s]|\bprocess\s*\[|["'](?:node:)?(?:process|vm|repl|tty)["']
        |\bfork\s*\(""",
        re.VERBOSE,
    ),
    "ruby": re.compile(
        r"""\b(?:STDIN|ARGF|ARGV|gets|readlines?|readpartial|getc|readchar|getbyte|each_line|system
            |exec|spawn|popen\w*|Open3|eval|instance_eval|class_eval|load|binding|Thor|OptionParser
            |Kernel|Readline|pry|irb)\b
        |\$stdin|\$<|\$\*|\$_|`|%x|\bIO\b|-\s*[np]\b""",
        re.VERBOSE,
    ),
    "perl": re.compile(
        r"""\b(?:STDIN|ARGV|ARGVOUT|system|exec|eval|do|require|getc|qx|readline|read|sysread|shift
            |pop|Getopt|open|fork)\b
        |<\s*>|<\$|<<>>|`|^\#!.*\s-\w*[npai]""",
        re.VERBOSE | re.MULTILINE,
    ),
}
_DOUBTFUL["typescript"] = _DOUBTFUL["javascript"]

_OTHER_FOLDER = re.compile(r"\bparents?\b\s*(?:\.\s*parent\b|\[)|[\"']\.\.|\bcwd\b|\bexpanduser\b")
_SUBPROCESS = re.compile(r"\bsubprocess\b(?:\s*\.\s*(\w+)(\s*\()?)?")
_STARTS = frozenset({"run", "call", "check_call", "check_output", "Popen"})
_FIRST_WORD = re.compile(r"""\s*(?:args\s*=\s*)?\[?\s*["']([\w./+-]+)(?:["']|\s)""")
_GIVES_INPUT = re.compile(r"\b(?:stdin|input)\s*=")
_LONGEST_CALL = 2_000


def _starts_only_deaf_programs(text: str) -> bool:
    """Tell whether every program that Python starts is given its input, or never reads any."""
    for match in _SUBPROCESS.finditer(text):
        name, opens = match.groups()
        if name in _STARTS:
            call = _inside_parentheses(text, match.end()) if opens else ""
            program = _FIRST_WORD.match(call)
            if _GIVES_INPUT.search(call):
                continue
            if not program or not _is_deaf(program.group(1), call):
                return False
        elif name in {"getoutput", "getstatusoutput"}:
            return False
    return True


def _inside_parentheses(text: str, start: int) -> str:
    depth = 1
    for position in range(start, min(len(text), start + _LONGEST_CALL)):
        depth += (text[position] == "(") - (text[position] == ")")
        if not depth:
            return text[start:position]
    return ""


# Builtins and programs that never read standard input, unless a word asks for it (`-`, `@-`).
_DEAF = frozenset(
    {
        *(":", "[", "[[", "((", "test", "true", "false", "echo", "printf", "cd", "pushd", "popd"),
        *("pwd", "set", "shopt", "setopt", "export", "readonly", "declare", "typeset", "local"),
        *("unset", "alias", "umask", "trap", "exit", "return", "break", "continue", "wait", "kill"),
        *("sleep", "type", "hash", "let", "case", "disown", "jobs", "ulimit", "command", "which"),
        *("mkdir", "rmdir", "rm", "cp", "mv", "ln", "ls", "touch", "chmod", "chown", "stat", "du"),
        *("df", "file", "basename", "dirname", "realpath", "readlink", "mktemp", "date", "cal"),
        *("uname", "hostname", "id", "whoami", "groups", "nproc", "arch", "uptime", "free", "ps"),
        *("pgrep", "pkill", "lsof", "seq", "yes", "find", "tree", "tput", "clear", "stty", "tty"),
        *("env", "printenv", "getconf", "locale", "sync", "install", "curl", "wget", "git"),
        *("unzip", "zip", "open", "xdg-open", "sw_vers", "xcode-select", "defaults", "tsc", "npm"),
        *(
            "ping",
            "dig",
            "nslookup",
            "ip",
            "ifconfig",
            "systemctl",
            "brew",
            "pip",
            "pip3",
            "ffprobe",
        ),
    }
)
# `git apply` and `npm run`, for example, may read; so may what `env` and `command` start.
_MAY_LISTEN = frozenset(
    {
        *(
            "apply",
            "am",
            "run",
            "exec",
            "start",
            "test",
            "fast-import",
            "hash-object",
            "credential",
        ),
        *("interpret-trailers", "mktree", "update-index", "update-ref", "cat-file", "check-ignore"),
        *(
            "login",
            "init",
            "run-script",
            "add-user",
            "adduser",
            "publish",
            "-exec",
            "-ok",
            "patch-id",
        ),
    }
)
# Filters: they read standard input unless a pipe or a file is given.
_FILTERS = frozenset(
    {
        *(
            "cat",
            "grep",
            "egrep",
            "fgrep",
            "sed",
            "awk",
            "gawk",
            "jq",
            "yq",
            "sort",
            "uniq",
            "head",
        ),
        *("tail", "wc", "cut", "tr", "tee", "xargs", "column", "fold", "fmt", "nl", "rev", "tac"),
        *("paste", "base64", "md5sum", "sha1sum", "sha256sum", "shasum", "xxd", "od", "bc", "less"),
    }
)
_OPERANDS = {"cat": 1, "head": 1, "tail": 1, "wc": 1, "grep": 2, "sed": 2, "awk": 2, "jq": 2}
_NO_OPTION = re.compile(r"(?!)")
_WITHOUT_VALUE = {
    "cat": re.compile(r"-[AbeEnstTuv]+"),
    "head": re.compile(r"-[nc]?\d+"),
    "tail": re.compile(r"-[nc]?\d+"),
    "wc": re.compile(r"-[clmwL]+"),
    "grep": re.compile(r"-[cEFhHilLnoqrRsvwx]+"),
    "sed": re.compile(r"-[nErsz]+"),
    "jq": re.compile(r"-[acCeMrSs]+"),
}
_OF_INPUT = re.compile(
    r"(?:^|[\s\"'=])(?:-|@-|--stdin|--interactive|-i)(?=$|[\s\"',\])])|=-(?=\s|$)"
)
_LOOPS_OVER_PIPE = re.compile(r"\|[ \t\\\n]*while[ \t]+(?:IFS=\S*[ \t]+)?$")
_PIPED = re.compile(r"(?<!\|)\|&?[ \t\\\n]*$")
_LINE = re.compile(r"(?:\\\n|[^\n])*")
_REDIRECTION = re.compile(r"[0-9&]?>")
_END_OF_COMMAND = re.compile(r"\|\|?|&&|;|\)|`|$")


def _is_deaf(program: str, words: str) -> bool:
    """Tell whether a program, with these words, certainly does not read standard input."""
    name = program.rpartition("/")[2]
    if name in {"echo", "printf"}:
        return True
    if name not in _DEAF:
        return _has_files(name, words)
    if _OF_INPUT.search(words):
        return False
    plain: list[str] = re.findall(r"[\w-]+", words)
    if name in {"env", "command"} and len(plain) > 1:
        return plain[1].startswith("-")
    return _MAY_LISTEN.isdisjoint(plain)


def _has_files(name: str, words: str) -> bool:
    """Tell whether a filter is given files: enough words, and no option that could take one."""
    operands = _OPERANDS.get(name)
    if operands is None:
        return False
    try:
        given = shlex.split(_REDIRECTION.split(words, maxsplit=1)[0], comments=True)[1:]
    except ValueError:
        return False
    options = [word for word in given if word.startswith("-")]
    plain = _WITHOUT_VALUE.get(name, _NO_OPTION)
    enough = len(given) - len(options) >= operands
    return enough and all(plain.fullmatch(option) for option in options)


def _shell_reads_nothing(text: str) -> bool:
    if "BASH_ARG" in text:
        return False
    facts = scan_shell(text)
    return all(_is_deaf_command(text, facts, command) for command in facts.commands)


def _is_deaf_command(text: str, facts: ShellFacts, command: ShellCommand) -> bool:
    name, start = command.name, command.start
    before = text[max(0, start - 200) : start]
    if name == "read":
        return _LOOPS_OVER_PIPE.search(before) is not None
    if name in facts.functions or name in {"source", "."}:
        return True  # its commands are in the list; what it sources is judged by itself
    line = _LINE.match(text, start)
    words = line.group() if line else ""
    words = words[: _END_OF_COMMAND.search(words).start()]  # type: ignore[union-attr]  # `$` matches
    if _PIPED.search(before) or "<" in words:
        return name in _FILTERS or name in _DEAF
    return _is_deaf(name, words)
