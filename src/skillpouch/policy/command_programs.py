"""What is known of programs: which of their words are data, which are commands."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Behind these the next command begins. Only `time` and `coproc` take words before it.
RESERVED = _names("if then else elif do while until ! {")
LOOPS = _names("for while until select")
# What stands behind them happens later, or at the same time as what is behind that.
OUT_OF_ORDER = _names("trap coproc mkfifo mknod")
SHELLS = _names("sh bash dash zsh ksh mksh ash rbash")

# Without a command they start a shell, which runs what it is fed.
STARTING_SHELLS = _names(
    """
    at batch busybox chroot crontab fakeroot linux32 linux64 newgrp nsenter runuser screen script
    setarch sg su tmux toybox unbuffer unshare
    """
)
# One word of them is a text for a shell.
TAKING_CODE = STARTING_SHELLS | _names("flock watch parallel entr")

# Whatever their words are, they run none of them.
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
# Of these, bash evaluates names: `x[$(rm y)]` runs a command in spite of its quotes.
EVALUATING = _names(
    """
    [ [[ builtin command declare export getopts let local mapfile printf read readarray readonly
    test typeset unset wait
    """
)
DECLARING = _names("declare export local readonly typeset")
# They hear of commands in ways that only they understand.
HANDLING_CODE = _names(
    "alias bind caller compgen complete compopt coproc enable fc fish hash history"
)
# Data, but for words that begin so.
DATA_UNLESS = {
    "rg": ("--pre", "--hostname-bin", "--search-zip", "-z"),
    "sort": ("--c", "--T"),
    "ag": ("--pager",),
    "man": ("-",),
}
# They read a text and give another, whatever that text says.
FILTERS = _names("sort rg ag jq yq sed awk gawk mawk column less more head tail tee bat fmt")

# Known not to take a word of their own command line for a program, unless it is written out
# where it can be seen: behind an option, in a script of their own.
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
# The first word of these says what to do: `docker rm x` removes no file.
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
# Variables that bash runs, or lets decide what a name runs.
RUN_VARIABLES = (
    r"\b(?:PS4|PS0|BASH_ENV|PROMPT_COMMAND|BASH_CMDS|BASH_ALIASES|BASH_FUNC\w*)\b|\AENV="
)


@dataclass(frozen=True, slots=True)
class Runner:
    """A program that runs another: its options without and with a word, words before the other."""

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
# Words of `find` behind which stands a value.
FIND_VALUES = _names(
    """
    -name -iname -path -ipath -wholename -regex -iregex -newer -mtime -mmin -ctime -cmin -atime
    -amin -size -user -group -perm -type -maxdepth -mindepth -not -o -or -and -a ! ( )
    """
)
# Names that mean what is said here, unless a text gives them another meaning. `time (…)` does not.
KNOWN = (DATA | ORDINARY | EVALUATING | DECLARING | SHELLS | HANDLING_CODE | set(RUNNERS)) - {
    "time"
}


# What stands in a word for text that only bash will know.
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
    """`is_plain` when the shell makes exactly this of it, and not more words or others.

    `is_bare` when nothing in it is quoted: only then can it be a reserved word. `holds_text`
    when an expansion in it may give anything but a number.
    """

    text: str
    is_plain: bool = True
    is_bare: bool = True
    holds_text: bool = False


@dataclass(slots=True)
class SimpleCommand:
    """One command: its words, the texts it is fed, whether it writes files."""

    words: list[CommandWord] = field(default_factory=list)
    fed: list[CommandWord] = field(default_factory=list)
    is_array: bool = False  # `a=(x y)`: values, nothing that runs
    writes: bool = False


@dataclass(slots=True)
class CommandText:
    """The commands of a text, in order; `is_single` when nothing parts or redirects."""

    commands: list[SimpleCommand] = field(default_factory=list)
    functions: list[CommandWord] = field(default_factory=list)
    is_single: bool = True
    is_doubtful: bool = False  # it cannot be read for certain
    passes_text: bool = False  # to a command, what another one prints
    has_jobs: bool = False  # `a & b`: nobody knows which is first
    evaluated: list[str] = field(default_factory=list)  # what bash calculates


def decoded(quoted: str) -> str:
    """Return what the inside of `$'…'` means."""
    return _ANSI_ESCAPE.sub(_ansi_character, quoted)


def _ansi_character(match: re.Match[str]) -> str:
    """Return what an escape in `$'…'` means; what is no plain character is not known."""
    octal, *codes, sign = match.groups()
    if sign is not None:
        return _ANSI_SIGNS.get(sign, f"\\{sign}")
    number = int(octal, 8) if octal else int("".join(filter(None, codes)), 16)
    return chr(number) if number < _PAST_ASCII else ANY


_NAME = re.compile(r"(?<![\w#])[A-Za-z_]\w*", re.ASCII)
_SET = re.compile(r"(?<![\w#])([A-Za-z_]\w*)\s*=(?!=)", re.ASCII)
_DEFAULT = re.compile(r"\{(\w+):?=", re.ASCII)
# Of these nobody knows what they hold: positional parameters, the output of a command, quotes.
_UNKNOWN = re.compile(r"\$\{?[0-9@*-]|\$\(|[`'\"]")
_SUBSCRIPTED = re.compile(r"\A[A-Za-z_]\w*\[([^]]+)", re.ASCII)
_LONGEST_NAME = 32
_COMPARED = re.compile(r"(\S+)\s+-(?:eq|ne|lt|le|gt|ge)\s+(\S+)")
_COMPARABLE = re.compile(
    r'"?(?:-?\d+|\$?([A-Za-z_]\w*)|\$\{([A-Za-z_]\w*)\}|\$[#?$!]|\$\{#\w+(?:\[[@*]\])?\})"?',
    re.ASCII,
)
_NUMBER = re.compile(r"[-+]?\d*", re.ASCII)
# What bash itself sets to a number, whatever is assigned to it.
_ALWAYS_NUMBERS = frozenset(("RANDOM", "SECONDS", "LINENO", "EPOCHSECONDS", "UID", "EUID", "PPID"))


def calculates_with_text(read: CommandText, text: str) -> bool:
    """Tell whether bash may calculate with something that is not known to be a number."""
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
    """Yield what `let` calculates, and the subscripts in names, quoted or not."""
    for command in read.commands:
        texts = [word.text for word in command.words]
        if "let" in texts:
            yield from texts[texts.index("let") + 1 :]
        if not EVALUATING.isdisjoint(texts):
            yield from (part for text in texts for part in _SUBSCRIPTED.findall(text))


def _compared(text: str) -> Iterator[str | None]:
    """Yield the names that `[[` compares as numbers; None for what is not a name and no number."""
    for operands in _COMPARED.findall(text.replace("\\\n", "")):
        for operand in operands:
            found = _COMPARABLE.fullmatch(operand)
            yield (found[1] or found[2] or "") if found else None


def _assigned(read: CommandText) -> tuple[set[str], set[str]]:
    """Return the names that a text gives numbers to, and those that may hold something else."""
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
            else:  # `read n`, `printf -v n`, `getopts`: it may be the name of a variable
                texts.update(_given_names(word.text))
        texts.update(name for word in command.fed for name in _DEFAULT.findall(word.text))
    return numbers, texts


def _given_names(text: str) -> Iterator[str]:
    """Yield the names that a word may give to a builtin: `n`, `n[0]`, `-vn`."""
    text = text.partition("[")[0]
    yield text
    if text.startswith("-"):
        yield from (text[place:] for place in range(2, min(len(text), _LONGEST_NAME)))


def _loop(command: SimpleCommand) -> int:
    """Return where the name of a loop over numbers is, 0 when there is none."""
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
