"""What is known of programs: which take words for data, which take them for another command.

A name that is missing here costs a question too many, never one too few: the words of a program
that is not known count as commands that it may run.
"""

from dataclasses import dataclass


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
