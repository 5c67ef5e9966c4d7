"""What is known of programs: which of their arguments are data, and which are commands."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# A command follows each of these words. Only `time` and `coproc` take other words before it.
RESERVED = _names("if then else elif do while until ! {")
LOOPS = _names("for while until select")
# The command after them runs later, or at the same time as the commands that follow.
OUT_OF_ORDER = _names("trap coproc mkfifo mknod")
SHELLS = _names("sh bash dash zsh ksh mksh ash rbash")

# Without a command they start a shell, which runs its standard input.
STARTING_SHELLS = _names(
    """
    at batch busybox chroot crontab fakeroot linux32 linux64 newgrp nsenter runuser screen script
    setarch sg su tmux toybox unbuffer unshare
    """
)
# One of their arguments is shell code.
TAKING_CODE = STARTING_SHELLS | _names("flock watch parallel entr")

# These never run any of their arguments.
DATA = _names(
    """
    : [ [[ ]] arch b2sum base32 base64 basename break cat cd cksum clear cmp comm continue cut
    date df diff dirname du echo egrep exit expr factor false fgrep file fold getconf getopts grep
    groups head hexdump hostname id join kill killall let locale logname ls lsof md5sum
    mkdir mkfifo nl nproc numfmt od paste pgrep pkill popd printenv printf ps pushd pwd read
    readlink realpath return rev rmdir seq set sha1sum sha256sum sha512sum shift shopt sleep stat
    strings sum sync tac tail tee test touch tr tree true truncate tsort tty type ulimit umask
    uname unexpand unset uniq uptime users wait wc whereis which who whoami xxd yes } done fi esac
    in
    """
)
# Bash evaluates names that these take: `x[$(rm y)]` runs a command, even in quotes.
EVALUATING = _names(
    """
    [ [[ builtin command declare export getopts let local mapfile printf read readarray readonly
    test typeset unset wait
    """
)
DECLARING = _names("declare export local readonly typeset")
# They take commands in forms that are not understood here.
HANDLING_CODE = _names(
    "alias bind caller compgen complete compopt coproc enable fc fish hash history"
)
# These run no argument, unless one begins with a text in the list.
DATA_UNLESS = {
    "rg": ("--pre", "--hostname-bin", "--search-zip", "-z"),
    "sort": ("--c", "--T"),
    "ag": ("--pager",),
    "man": ("-",),
}
# They transform their input, and never run it.
FILTERS = _names("sort rg ag jq yq sed awk gawk mawk column less more head tail tee bat fmt")

# These run a program only if its name is written out in their arguments: after an option, or in a
# script in their own language.
ORDINARY = FILTERS | _names(
    """
    ansible ansible-playbook apk apt apt-get autopep8 aws az bandit bazel black brew bun bunx
    bundle bzip2 cargo cc chgrp chmod chown clang clang-format clang-tidy cmake composer conda
    convert coverage cp createdb csvcut curl dd deno dig docker docker-compose dotnet dpkg dropdb
    eslint ffmpeg ffprobe flake8 flask g++ gcc gcloud gem gh git gitleaks gmake go gofmt gotestsum
    gpg gradle gradlew grpcurl gunzip gzip helm host hub httpie http hyperfine identify image
    install ip isort link ln jar java javac jest jupyter kubectl ld ldd ls-files lsb_release lua lz4
    make markdownlint mkdocs mktemp mocha mv mvn mvnw mypy mysql mysqldump nano netstat next ng
    ninja nm node nosetests npm nslookup nvm objdump openssl pandoc patch pdftotext perl pg_dump
    php pip pip3 pipdeptree pipenv pipx playwright pnpm podman poetry prettier protoc psql pyenv
    pylint pyright pytest python python2 python3 python3.10 python3.11 python3.12 python3.13
    python3.14 pg_restore rails rake readelf redis-cli rsync ruby rubocop ruff rustc rustfmt
    rustup scp shellcheck shfmt sha256 split sqlite3 ss strip swc tar terraform tox traceroute tsc
    twine unzip uv uvicorn vercel vite vitest vue webpack wget xz yarn yamllint zip zcat zgrep
    zstd zstdcat
    """
)
# Their first argument is a sub-command, not a program: `docker rm x` removes no file.
WITH_SUBCOMMANDS = _names(
    """
    apk apt apt-get brew bundle bun cargo composer conda docker docker-compose gem gh git go helm
    kubectl npm pip pip3 pnpm podman poetry rustup terraform uv yarn
    """
)
GIT_DATA = _names(
    """
    add blame branch cat-file checkout cherry-pick commit describe diff init log ls-files ls-tree
    merge merge-base mv reflog remote reset restore rev-list rev-parse revert rm shortlog show
    show-ref stash status switch tag
    """
)
# Variables whose values bash runs, or that change what a command name runs.
RUN_VARIABLES = (
    r"\b(?:PS4|PS0|BASH_ENV|PROMPT_COMMAND|BASH_CMDS|BASH_ALIASES|BASH_FUNC\w*)\b|\AENV="
)


@dataclass(frozen=True, slots=True)
class Runner:
    """A program that runs another.

    `without` and `with_word` are the letters of its options without and with an argument;
    `words_before` is how many arguments come before the other program.
    """

    without: str = ""
    with_word: str = ""
    long: frozenset[str] = frozenset()
    words_before: int = 0
    takes_assignments: bool = False


RUNNERS = {
    "sudo": Runner("AbEHiKknPSsV", "CDghpRrTtUu", takes_assignments=True),
    "doas": Runner("Lns", "Cu"),
    "env": Runner(
        "0iv", "Cu", _names("--ignore-environment --null --unset --chdir"), takes_assignments=True
    ),
    "nice": Runner("", "n", _names("--adjustment")),
    "nohup": Runner(),
    "setsid": Runner("cfw"),
    "stdbuf": Runner("", "eio"),
    "ionice": Runner("t", "cn"),
    "time": Runner("pv", "fo"),
    "timeout": Runner(
        "fpv", "ks", _names("--foreground --preserve-status --signal --kill-after"), words_before=1
    ),
    "exec": Runner("cl", "a"),
    "builtin": Runner(),
    "busybox": Runner(),
    "toybox": Runner(),
    "command": Runner("p"),
    "xargs": Runner(
        "0rtpx",
        "EILPadns",
        _names("--null --no-run-if-empty --verbose --max-args --max-procs --delimiter"),
    ),
}
FIND_RUNS = _names("-exec -execdir -ok -okdir")
# Words of `find` that are followed by a value or another test.
FIND_VALUES = _names(
    """
    -name -iname -path -ipath -wholename -regex -iregex -newer -mtime -mmin -ctime -cmin -atime
    -amin -size -user -group -perm -type -maxdepth -mindepth -not -o -or -and -a ! ( )
    """
)
# Names that the tables above describe; a script that defines a function of one of these names
# changes its meaning. Not `time`, because `time (…)` looks like such a definition.
KNOWN = (DATA | ORDINARY | EVALUATING | DECLARING | SHELLS | HANDLING_CODE | set(RUNNERS)) - {
    "time"
}


# Marks in a word, in place of text that is known only when bash expands it.
GLOB = "\1"  # some characters of a file name, never a slash
ANY = "\2"  # any text, in one word
SPLIT = "\3"  # any text, perhaps several words
MARKS = frozenset((GLOB, ANY, SPLIT))

ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(?:\[[^]=]*\])?\+?=", re.ASCII)

ANSI_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'", re.DOTALL)
_ANSI_ESCAPE = re.compile(
    r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|(.))",
    re.DOTALL,
)
_ANSI_SIGNS = {
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "?": "?",
    "c": ANY,
}
_PAST_ASCII = 128


@dataclass(frozen=True, slots=True)
class CommandWord:
    """One word of a command; `is_plain` if the shell does not expand or split it.

    `is_bare` if nothing in it is quoted: only then can it be a reserved word. `holds_text` if an
    expansion in it may give anything but a number.
    """

    text: str
    is_plain: bool = True
    is_bare: bool = True
    holds_text: bool = False


@dataclass(slots=True)
class SimpleCommand:
    """One command: its words, the texts on its standard input, whether it writes files."""

    words: list[CommandWord] = field(default_factory=list)
    fed: list[CommandWord] = field(default_factory=list)
    is_array: bool = False  # `a=(x y)`: the words are values, and nothing runs
    writes: bool = False


@dataclass(slots=True)
class CommandText:
    """The commands of a text, in order; `is_single` if there is no operator and no redirection."""

    commands: list[SimpleCommand] = field(default_factory=list)
    functions: list[CommandWord] = field(default_factory=list)
    is_single: bool = True
    is_doubtful: bool = False  # it cannot be read for certain
    passes_text: bool = False  # a command gets the output of another one
    has_jobs: bool = False  # `a & b`: the order is unknown
    evaluated: list[str] = field(default_factory=list)  # arithmetic expressions


def decoded(quoted: str) -> str:
    """Return the text of `$'…'`, with its escapes decoded."""
    return _ANSI_ESCAPE.sub(_ansi_character, quoted)


def _ansi_character(match: re.Match[str]) -> str:
    """Return the character of an escape in `$'…'`; a mark for unknown text if it is not ASCII."""
    octal, *codes, sign = match.groups()
    if sign is not None:
        return _ANSI_SIGNS.get(sign, f"\\{sign}")
    number = int(octal, 8) if octal else int("".join(filter(None, codes)), 16)
    return chr(number) if number < _PAST_ASCII else ANY


_NAME = re.compile(r"(?<![\w#])[A-Za-z_]\w*", re.ASCII)
_SET = re.compile(r"(?<![\w#])([A-Za-z_]\w*)\s*=(?!=)", re.ASCII)
_DEFAULT = re.compile(r"\{(\w+):?=", re.ASCII)
# Their values are unknown: positional parameters, the output of a command, quoted text.
_UNKNOWN = re.compile(r"\$\{?[0-9@*-]|\$\(|[`'\"]")
_SUBSCRIPTED = re.compile(r"\A[A-Za-z_]\w*\[([^]]+)", re.ASCII)
_LONGEST_NAME = 32
_COMPARED = re.compile(r"(\S+)\s+-(?:eq|ne|lt|le|gt|ge)\s+(\S+)")
_COMPARABLE = re.compile(
    r'"?(?:-?\d+|\$?([A-Za-z_]\w*)|\$\{([A-Za-z_]\w*)\}|\$[#?$!]|\$\{#\w+(?:\[[@*]\])?\})"?',
    re.ASCII,
)
_NUMBER = re.compile(r"[-+]?\d*", re.ASCII)
# Bash itself sets these to numbers, whatever is assigned to them.
_ALWAYS_NUMBERS = frozenset(("RANDOM", "SECONDS", "LINENO", "EPOCHSECONDS", "UID", "EUID", "PPID"))


def calculates_with_text(read: CommandText, text: str) -> bool:
    """Tell whether bash may evaluate something in arithmetic that is not known to be a number."""
    expressions = [*read.evaluated, *_given_to_builtins(read)]
    compared = list(_compared(text)) if "[[" in text else []
    if not expressions and not compared:
        return False
    if None in compared or any(_UNKNOWN.search(each) for each in expressions):
        return True
    used = {name for each in expressions for name in _NAME.findall(each)}
    used |= {name for name in compared if name}
    numbers = {name for each in expressions for name in _SET.findall(each)} | _ALWAYS_NUMBERS
    known, texts = _assigned(read)
    return not used <= (known | numbers) - texts


def _given_to_builtins(read: CommandText) -> Iterator[str]:
    """Yield the arguments of `let`, and the subscripts in names, quoted or not."""
    for command in read.commands:
        texts = [word.text for word in command.words]
        if "let" in texts:
            yield from texts[texts.index("let") + 1 :]
        if not EVALUATING.isdisjoint(texts):
            yield from (part for text in texts for part in _SUBSCRIPTED.findall(text))


def _compared(text: str) -> Iterator[str | None]:
    """Yield the names that `[[` compares as numbers; None for anything but a name or a number."""
    for operands in _COMPARED.findall(text.replace("\\\n", "")):
        for operand in operands:
            found = _COMPARABLE.fullmatch(operand)
            yield (found[1] or found[2] or "") if found else None


def _assigned(read: CommandText) -> tuple[set[str], set[str]]:
    """Return the names to which a text assigns numbers, and names that may hold other text."""
    numbers: set[str] = set()
    texts: set[str] = set()
    for command in read.commands:
        looped = _loop(command)
        words = [] if any(word.text == "let" for word in command.words) else command.words
        for place, word in enumerate(words):
            assigned = ASSIGNMENT.match(word.text)
            if assigned:
                name = _NAME.findall(word.text)[0]
                (numbers if _is_number(word, assigned.end()) else texts).add(name)
            elif place == looped:
                numbers.add(word.text)
            else:  # as in `read n`, `printf -v n`, `getopts`: perhaps the name of a variable
                texts.update(_given_names(word.text))
        texts.update(name for word in command.fed for name in _DEFAULT.findall(word.text))
    return numbers, texts


def _given_names(text: str) -> Iterator[str]:
    """Yield the names that a builtin may find in a word: `n`, `n[0]`, `-vn`."""
    text = text.partition("[")[0]
    yield text
    if text.startswith("-"):
        yield from (text[place:] for place in range(2, min(len(text), _LONGEST_NAME)))


def _loop(command: SimpleCommand) -> int:
    """Return the position of the variable of a loop over numbers, 0 if there is none."""
    words = [word.text for word in command.words]
    if "for" not in words:
        return 0
    place = words.index("for") + 1
    values = command.words[place + 2 :]
    is_counted = words[place + 1 : place + 2] == ["in"] and all(map(_is_number, values))
    return place if is_counted else 0


def _is_number(word: CommandWord, start: int = 0) -> bool:
    value = "".join(letter for letter in word.text[start:] if letter not in MARKS)
    return not word.holds_text and _NUMBER.fullmatch(value) is not None
