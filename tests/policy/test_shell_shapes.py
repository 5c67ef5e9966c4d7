"""Rules about shell commands, compared with what bash itself does with the same text."""

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillpouch.policy import CommandTest
from tests.effort import few_or_many

REFUSED = CommandTest("rm *")

# Each of these removes `x`, in bash itself and with programs that every Linux has.
REMOVING = [
    # redirections stand anywhere
    *("</dev/null rm x", "2>&1 rm x", "A=b >log rm x", "<<E rm x\nE", ">log rm x", "rm x >log"),
    *("2>/dev/null rm x", "<>log rm x", ">|log rm x", "&>log rm x", ">&log rm x", "3<&0 rm x"),
    *("rm<<<y x", "<<<y rm x", ">>log 2>&1 rm x", "{fd}>log rm x", "<<-E rm x\n\tE", "1>&- rm x"),
    *("rm x&>log", "A=b B=c </dev/null rm x", "< <(true) rm x", "> >(cat) rm x", "<<'E' rm x\nE"),
    *("<<E cat; rm x\nbody\nE", "cat <<E\nbody\nE\nrm x", "cat <<A <<B\na\nA\nb\nB\nrm x"),
    *("cat <<-E\n\tbody\n\tE\nrm x", 'cat <<"E F"\nbody\nE F\nrm x', "cat <<E\n$(rm x)\nE"),
    *("cat <<E\n`rm x`\nE", "cat <<\\E\n$(\nE\nrm x", "cat <<E\n${a:-$(rm x)}\nE"),
    *("cat <<E\nE\\\nF\nE\nrm x", "cat <<E\nx\\\nE\nE\nrm x"),
    # quotes and lines
    *('"r\\\nm" x', "r\\\nm x", "\\rm x", "'rm' x", '"rm" x', "r''m x", 'r""m x', "$'rm' x"),
    *("$'\\x72m' x", "$'\\162m' x", "$'r\\u006d' x", '$"rm" x', "''rm x", 'r"m" x', "\\r\\m x"),
    *(
        "true # '\nrm x",
        "true #\\\nrm x",
        "echo a#'b\n'; rm x",
        "echo \\' ; rm x",
        "echo '\\'; rm x",
    ),
    *('echo "\\""; rm x', 'echo "\'"; rm x', "echo '\"'; rm x", "true ${a#'}'}; rm x"),
    # what parts commands
    *("rm x", "true; rm x", "true && rm x", "false || rm x", "true | rm x", "true |& rm x"),
    *("true & rm x", "true\nrm x", "(rm x)", "{ rm x; }", "( ( rm x ) )", "{ { rm x; }; }"),
    *("! rm x", "! ! rm x", "time rm x", "time -p rm x", "coproc rm x; wait", "rm x &\nwait"),
    *("coproc N { rm x; }; wait", "true |\nrm x", "true &&\nrm x", "true;rm x", "true&&rm x"),
    # compound commands
    *("if rm x; then :; fi", "if true; then rm x; fi", "if false; then :; else rm x; fi"),
    *("if false; then :; elif rm x; then :; fi", "while rm x; do :; done 2>/dev/null"),
    *("until rm x; do :; done", "for i in 1; do rm x; done", "for ((i=0;i<1;i++)); do rm x; done"),
    *(
        "for ((i=0;i<1;i++)) { rm x; }",
        "for i in rm; do $i x; done",
        "for i in r; do ${i}m x; done",
    ),
    *("case a in a) rm x;; esac", "case a in (a) rm x;; esac", "case a in b|a) rm x;; esac"),
    *("case a in\n b) true;;\n *) rm x;;\nesac", "case a in a) ;& b) rm x;; esac"),
    *("case a in a) rm x; esac", "select i in 1; do rm x; break; done <<< 1", "[[ a ]] && rm x"),
    *("((1)) && rm x", "[[ a < b ]] && rm x", "[[ a > b ]] || rm x", "f() { rm x; }; f"),
    *(
        "f() ( rm x ); f",
        "function f { rm x; }; f",
        "function f() { rm x; }; f",
        "f()\n{ rm x; }\nf",
    ),
    *('echo() { command "$@"; }; echo rm x', 'ls() { "$@"; }; ls rm x', "f() { $1 x; }; f rm"),
    *('f() { "$@"; }; f rm x', "f() { rm $1; }; f x", 'set -- rm x; "$@"', "set -- rm; $1 x"),
    # expansions
    *("$(rm x)", "echo $(rm x)", 'echo "$(rm x)"', "echo `rm x`", 'echo "`rm x`"', "a=$(rm x)"),
    *("a=`rm x`", "echo $(echo $(rm x))", "echo `echo \\`rm x\\``", 'echo "$(echo "$(rm x)")"'),
    *("echo ${a:-$(rm x)}", 'echo "${a:-$(rm x)}"', "echo ${a:=`rm x`}", "echo $((`rm x`1))"),
    *("echo $(($(rm x)1))", "echo $[$(rm x)1]", "cat <(rm x)", "true > >(rm x); wait; sleep 0.1"),
    *("echo $(case a in a) rm x;; esac)", 'echo "$(case a in a) rm x;; esac)"', "a=(`rm x`)"),
    *("a=($(rm x))", "a[$(rm x)0]=1", "((a[$(rm x)0]=1))", "echo ${a[$(rm x)0]}", "[[ $(rm x) ]]"),
    *("case $(rm x) in *) ;; esac", "for i in $(rm x); do :; done", "echo $( (rm x) )"),
    *("echo $((rm x) )", "echo $( ((1)); rm x)", "echo $(# '\nrm x\n)", "echo ${a:-`rm x`}"),
    *("echo $(cat <<E\n)\nE\nrm x)", "echo ${a+b} ${#a} $(rm x)", "echo >$(rm x)log"),
    # the program comes from a variable, a pattern or a list
    *(
        "a=rm; $a x",
        "a=r; ${a}m x",
        "a=r b=m; $a$b x",
        "a='rm x'; $a",
        "${a:-rm} x",
        "a=(rm x); ${a[@]}",
    ),
    *('a=(rm x); "${a[@]}"', "b=a; a=rm; ${!b} x", "a=xrm; ${a#x} x"),
    *("a=rmx; ${a%x} x", "a=RM; ${a,,} x", "a=rxm; ${a/x/} x", "a=arm; ${a:1} x", "/bin/r[m] x"),
    *("/*/rm x", "{rm,x}", "{r,}m x", "r{m,} x 2>/dev/null", "$(echo rm) x"),
    *(
        "`echo rm` x",
        "r$(echo m) x",
        '"$(echo rm)" x',
        "$(printf '\\162m') x",
        "read a <<< rm; $a x",
    ),
    *("printf -v a rm; $a x", "declare a=rm; $a x", "export a=rm; $a x", "a=r; a+=m; $a x"),
    *("read -r a b <<< 'rm x'; $a $b", "mapfile -t a <<< rm; ${a[0]} x", "IFS=,; a=rm,x; $a"),
    *("while read -r l; do $l; done <<< 'rm x'", "echo rm x | while read -r l; do $l; done"),
    *(
        "/bin/rm x",
        "/usr/../bin/rm x",
        "//bin/rm x",
        "PATH=/bin rm x",
        "X=1 Y=2 rm x",
        "a[0]=1 rm x",
    ),
    # builtins that run or evaluate text
    *(
        "eval rm x",
        "eval 'rm x'",
        'eval "r""m x"',
        "eval r''m x",
        "eval 'ev''al rm x'",
        'eval "$a"rm x',
    ),
    *("let 'a[$(rm x)]=0'", "test -v 'a[$(rm x)]'", "[ -v 'a[$(rm x)]' ]", "[[ -v 'a[$(rm x)]' ]]"),
    *("printf -v 'a[$(rm x)]' y", "declare 'a[$(rm x)]=1'", "read 'a[$(rm x)]' <<< 1"),
    *("a=(1); unset 'a[$(rm x)]'", "export a; typeset 'a[$(rm x)]=1'", "printf -v 'a[`rm x`]' y"),
    *("a='b[$(rm x)]'; ((a))", "a='b[$(rm x)]'; echo $((a))", "a='b[$(rm x)]'; [[ a -eq 0 ]]"),
    *(
        "a='b[$(rm x)]'; c=1; echo ${c:a}",
        "a='b[$(rm x)]'; let a",
        "declare -n a='b[$(rm x)]'; echo $a",
    ),
    *("a='b[$(rm x)]'; echo ${!a}", "a='$(rm x)'; echo ${a@P}", "f() { local 'a[$(rm x)]=1'; }; f"),
    *("read a <<< 'b[$(rm x)]'; ((a))", "trap 'rm x' EXIT", "trap 'rm x' 0", "trap -- 'rm x' EXIT"),
    *(
        "trap 'r''m x' EXIT",
        "trap 'rm x' DEBUG; true",
        "trap 'rm x' ERR; false",
        "compgen -C 'rm x'",
    ),
    *(
        "mapfile -C 'rm x;' -c 1 <<< y",
        "readarray -c 1 -C 'rm x #' a <<< y",
        "PS4='$(rm x)'; set -x; true",
    ),
    *("BASH_ENV=<(echo rm x) bash -c true", "hash -p /bin/rm y; y x"),
    *(
        "shopt -s expand_aliases; alias y=rm\ny x",
        "shopt -s expand_aliases\nalias echo='rm x'\necho",
    ),
    *("BASH_CMDS[y]=/bin/rm; y x", "command rm x", "command -p rm x", "builtin command rm x"),
    *(
        "exec rm x",
        "exec -a y rm x",
        "exec -c /bin/rm x",
        "builtin eval rm x",
        "command eval 'rm x'",
    ),
    *(
        "source /dev/stdin <<< 'rm x'",
        ". /dev/stdin <<< 'rm x'",
        "source <(echo rm x)",
        ". <(echo rm x)",
    ),
    *(
        "set -- x; rm $1",
        "enable -n echo; rm x",
        "command command rm x",
        "coproc eval 'rm x'; wait",
    ),
    # programs that run programs
    *(
        "env rm x",
        "env A=b rm x",
        "env -i /bin/rm x",
        "env -u A rm x",
        "env -S 'rm x'",
        "env '-Srm x'",
    ),
    *(
        "env -iS 'rm x'",
        "env --split-string='rm x'",
        "env '-vSrm x'",
        "env -C . rm x",
        "env - /bin/rm x",
    ),
    *(
        "nice rm x",
        "nice -n 5 rm x",
        "nice -5 rm x",
        "nohup rm x",
        "timeout 5 rm x",
        "timeout -k 1 5 rm x",
    ),
    *(
        "timeout --signal=KILL 5 rm x",
        "timeout -s KILL 5 rm x",
        "setsid -w rm x",
        "stdbuf -oL rm x",
    ),
    *(
        "echo x | xargs rm",
        "xargs rm <<< x",
        "echo rm x | xargs env",
        "echo rm | xargs -I{} env {} x",
    ),
    *(
        "echo 'rm x' | xargs -I{} sh -c {}",
        "echo rm | xargs -I ls env ls x",
        "xargs -a /dev/null rm x",
    ),
    *("echo x | xargs -n1 -P2 rm", "echo x | xargs -I% rm %", "printf 'x\\0' | xargs -0 rm"),
    *(
        "echo \"-c 'rm x'\" | xargs bash",
        "echo rm x | xargs -n2 timeout 5",
        "echo rm x | xargs xargs -a /dev/null",
    ),
    *(
        "find x -exec rm {} ;".replace(";", "\\;"),
        "find x -exec rm {} +",
        "find x -execdir rm {} ';'",
    ),
    *(
        "find x -exec sh -c 'rm x' \\;",
        "find . -name x -exec env rm {} +",
        "find x -exec {} \\; ; rm x",
    ),
    *(
        "a=-exec; find x $a /bin/r''m {} +",
        "find x -ok rm {} \\; <<< y",
        "find /bin/rm -exec {} x \\;",
    ),
    *(
        "sh -c 'rm x'",
        'bash -c "rm x"',
        "bash -ec 'rm x'",
        "bash -c -e 'rm x'",
        "bash -o errexit -c 'rm x'",
    ),
    *("bash --norc -c 'rm x'", "bash +x -c 'rm x'", "sh -c 'eval \"r\"m x'", "sh -c '$0 x' rm"),
    *(
        "sh -c '\"$@\"' _ rm x",
        "bash -c 'r\"m\" x'",
        "bash -c \"bash -c 'rm x'\"",
        "echo rm x | sh",
    ),
    *(
        "sh <<< 'rm x'",
        "bash <<E\nrm x\nE",
        "bash < <(echo rm x)",
        "bash <(echo rm x)",
        "printf '\\162m x' | sh",
    ),
    *(
        "echo rm x | bash -s",
        "echo cm0geA== | base64 -d | sh",
        "echo rm x | tee log | bash",
        "echo mr x | rev | rev >s; rev s | sh; rm x",
    ),
    *(
        'sh -c "$(echo rm x)"',
        "bash -c $'rm\\tx'",
        "a='r'; sh -c \"${a}m x\"",
        "bash /dev/stdin <<< 'rm x'",
    ),
    *(
        "echo 'rm x' >s; sh s",
        "echo 'rm x' >s; . ./s",
        "printf 'r''m x' >s; bash s",
        "cat >s <<E\nrm x\nE\nsh s",
    ),
    *("echo rm x | tee s >/dev/null; sh s", "printf '#!/bin/sh\\n\\162m x\\n' >s; chmod +x s; ./s"),
    *(
        "cp /dev/stdin s <<< 'r''m x'; sh s",
        "for i in 1 2; do [ -f s ] && sh s; printf 'r''m x' >s; done",
    ),
    *(
        "echo 'r''m x' >s; bash -x s 2>/dev/null",
        "true $(echo 'r''m x' >s); sh s",
        "ln -s /bin/rm y; ./y x",
    ),
    *("cp /bin/rm y; ./y x", "a=/bin/rm; cp $a y; ./y x", "echo $(</dev/null rm x)", "a=(b); rm x"),
    "printf '#!/bin/sh\\n\\162m x' >git; chmod +x git; PATH=.:$PATH; git",
    "printf '#!/bin/sh\\n\\162m x' >git; chmod +x git; ./git",
    "a=${z:-rm}; $a x",
    "$'\\x72\\155' x",
    "eval $'r\\x6d\\tx'",
]

# The same with programs that not every machine has: `program`, then what runs it.
REMOVING_WITH = [
    ("flock", "flock . rm x"),
    ("make", 'make -f - <<< "${z:-a:;rm x}"'),
    ("python3", "python3 -c $'import os\\nos.system(\"\\x72\\155 x\")'"),
    ("awk", 'a=r; awk "BEGIN{system(\\"${a}m x\\")}"'),
    ("awk", "a=m; awk 'BEGIN{system(\"r'$a' x\")}'"),
    ("setarch", "printf '\\162m x' | setarch x86_64"),
    ("unshare", "unshare <<< 'r''m x'"),
    ("sudo", "printf '\\162m x' | sudo -s"),
    ("flock", "flock . -c 'rm x'"),
    ("flock", "a=r; flock . ${a}m x"),
    ("flock", "touch rm; flock . r? x; true"),
    ("prlimit", "prlimit rm x"),
    ("prlimit", "prlimit --nofile=100 rm x"),
    ("taskset", "taskset 1 rm x"),
    ("setpriv", "setpriv rm x"),
    ("setpriv", "setpriv --no-new-privs rm x"),
    ("setarch", "setarch x86_64 rm x"),
    ("linux64", "linux64 rm x"),
    ("script", "script -qc 'rm x' /dev/null"),
    ("script", "script -q /dev/null -c 'rm x'"),
    ("ionice", "ionice -c 3 rm x"),
    ("chrt", "chrt -o 0 rm x"),
    ("git", "git -c alias.x='!rm x' x"),
    ("git", "git -c 'alias.x=!f() { rm x; }; f' x"),
    ("git", "git init -q .; git config alias.y '!rm x'; git y"),
    ("git", "GIT_PAGER='rm x;' git -p help -a"),
    ("awk", "awk 'BEGIN { system(\"rm x\") }'"),
    ("awk", 'awk \'BEGIN { print "rm x" | "sh" }\''),
    ("awk", "echo | awk '{ \"rm x\" | getline }'"),
    ("sed", "echo | sed 's/^/rm x/e'"),
    ("sed", "echo | sed '1e rm x'"),
    ("tar", "tar cf log --checkpoint=1 --checkpoint-action=exec='rm x' x 2>/dev/null"),
    ("tar", "tar cf log -I 'sh -c \"rm x\"' /dev/null 2>/dev/null"),
    ("make", "make -f - <<< 'a:;rm x'"),
    ("make", "echo 'a:;rm x' | make -f -"),
    ("make", "make -s --eval='a:;rm x' a"),
    ("python3", "python3 -c 'import os; os.system(\"rm x\")'"),
    ("python3", "python3 <<E\nimport os\nos.system('rm x')\nE"),
    ("python3", "echo 'import os; os.system(\"rm x\")' | python3"),
    ("python3", 'python3 -c "$(echo \'import os; os.system("rm x")\')"'),
    ("perl", "perl -e 'system(\"rm x\")'"),
    ("perl", "perl -e '`rm x`'"),
    ("perl", "echo 'system(\"rm x\")' | perl"),
    ("dash", "dash -c 'rm x'"),
    ("busybox", "busybox rm x"),
    ("busybox", "busybox sh -c 'rm x'"),
    ("sudo", "sudo -n rm x"),
    ("sort", "sort --compress-program='rm' -S 1k x; rm x"),
    ("ld.so", "ld.so /bin/rm x"),
    ("nsenter", "nsenter rm x"),
    ("unshare", "unshare rm x"),
    ("strace", "strace -o log rm x"),
    ("parallel", "parallel rm ::: x"),
    ("su", "su -c 'rm x'"),
]


def _run(text: str, folder: Path) -> None:
    (folder / "x").write_text("here\n")
    subprocess.run(
        ["/bin/bash", "--noprofile", "--norc", "-c", text],
        cwd=folder,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=20,
    )


@pytest.mark.promise("pol-11")
@pytest.mark.parametrize("text", REMOVING)
def test_no_shape_of_a_refused_command_is_unseen(text: str, tmp_path: Path) -> None:
    _run(text, tmp_path)

    assert not (tmp_path / "x").exists(), "the shape is no longer one: bash does not run it"
    assert REFUSED.holds(text, cautious=True)


@pytest.mark.promise("pol-11")
@pytest.mark.parametrize(("program", "text"), REMOVING_WITH)
def test_no_program_that_runs_a_refused_command_hides_it(
    program: str, text: str, tmp_path: Path
) -> None:
    if shutil.which(program):
        _run(text, tmp_path)

    assert REFUSED.holds(text, cautious=True)


def test_at_least_two_hundred_shapes_are_compared() -> None:
    assert len(set(REMOVING)) >= 200


# Each runs something that is not `printf`; a permission for `printf` is for none of them.
BESIDE_PRINTF = [
    *("printf -v 'a[$(rm x)]' y", "printf -v 'a[`rm x`]' y", 'printf -v "a[\\$(rm x)]" y'),
    *("printf '%s' $(rm x)", "printf y; rm x", "printf y | rm x", "printf y > >(rm x); wait"),
    *(
        "printf y <(rm x)",
        'printf "`rm x`"',
        "printf y & rm x",
        "printf y\nrm x",
        "</dev/null rm x",
    ),
    *(
        "printf() { rm x; }; printf y",
        "A=$(rm x) printf y",
        "printf ${a:-$(rm x)}",
        "printf y && rm x",
    ),
    *(
        "printf $((a[$(rm x)0]))",
        "printf <<E\n$(rm x)\nE",
        "printf y #\nrm x",
        "printf \\\n$(rm x)",
    ),
]


@pytest.mark.promise("pol-11")
@pytest.mark.parametrize("text", BESIDE_PRINTF)
def test_a_permission_for_printf_permits_nothing_else(text: str, tmp_path: Path) -> None:
    _run(text, tmp_path)

    assert not (tmp_path / "x").exists(), "the shape is no longer one: bash does not run it"
    assert not CommandTest("printf *").holds(text, cautious=False)


@pytest.mark.promise("pol-11")
@pytest.mark.parametrize(
    "text",
    [
        *("test -v 'a[$(rm x)]'", "[ -v 'a[$(rm x)]' ]", "read 'a[$(rm x)]'", "let 'a[$(rm x)]=0'"),
        *("declare 'a[$(rm x)]=1'", "typeset 'a[$(rm x)]=1'", "export 'a[$(rm x)]=1'"),
        *(
            "local 'a[$(rm x)]=1'",
            "unset 'a[$(rm x)]'",
            "mapfile 'a[$(rm x)]'",
            "wait -p 'a[$(rm x)]'",
        ),
    ],
)
def test_a_permission_for_a_builtin_is_none_for_what_it_evaluates(text: str) -> None:
    program = text.partition(" ")[0]

    assert not CommandTest(f"{program} *").holds(text, cautious=False)


_PIECES = [
    *(
        "rm",
        "r",
        "m",
        "x",
        " ",
        " ",
        " ",
        "'",
        '"',
        "\\",
        "\n",
        ";",
        "&&",
        "|",
        "$(",
        ")",
        "(",
        "`",
    ),
    *(
        "{ ",
        "}",
        "<",
        ">",
        "<<E",
        "\nE\n",
        "<<<",
        "$a",
        "a=",
        "if ",
        "then ",
        "fi",
        "case a in ",
        "a) ",
    ),
    *(
        ";;",
        " esac",
        "echo ",
        "env ",
        "eval ",
        "sh -c ",
        "xargs ",
        "${a",
        "#",
        "$'",
        "=",
        "2",
        "[[ ",
        "]]",
    ),
    *(
        "for a in ",
        "; do ",
        "; done",
        "f() ",
        "printf ",
        "-v ",
        "[",
        "]",
        "((",
        "))",
        "cat ",
        "\t",
        "!",
    ),
]
_LOUD_RM = '#!/bin/sh\necho ran >>"$MARK"\n'


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.promise("pol-11")
@few_or_many("examples", 300, 1_500)
def test_no_generated_text_runs_a_refused_command_unseen(tmp_path: Path, examples: int) -> None:
    programs, mark, folder = tmp_path / "bin", tmp_path / "mark", tmp_path / "work"
    programs.mkdir()
    folder.mkdir()
    (programs / "rm").write_text(_LOUD_RM)
    (programs / "rm").chmod(0o755)
    variables = {"PATH": f"{programs}:/usr/bin:/bin", "MARK": str(mark)}

    @settings(deadline=None, max_examples=examples, database=None)
    @given(st.lists(st.sampled_from(_PIECES), min_size=2, max_size=14))
    def tried(pieces: list[str]) -> None:
        text = "".join(pieces)
        if "rm" not in text.replace("'", "").replace('"', "") or REFUSED.holds(text, cautious=True):
            return
        mark.unlink(missing_ok=True)
        subprocess.run(
            ["/bin/bash", "--noprofile", "--norc", "-c", text],
            cwd=folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=20,
        )
        assert not mark.exists(), text

    tried()
