"""Rules about shell commands, attacked again: what got past them once, compared with bash."""

import subprocess
from pathlib import Path

import pytest

from skillpouch.policy import CommandTest

# Each of these removes `x` in bash, and went past a rule about `rm` once.
REMOVING = [
    ">&'$(rm x)'",
    "echo >&'$(r\"\"m x)'",
    'echo >&"\\$(rm x)"',
    "echo >&'`rm x`'",
    "echo >&\\$\\(rm\\ x\\)",
    "echo >&$'\\x24(rm x)'",
    "a='$'; b='(r\\m x)'; echo >&\"$a$b\"",
    "printf -v q '\\x24(r\\155 x)'; echo >&\"$q\"",
    "echo a >& '$(rm x)'",
    "=>&'b[$(rm x)]'?",
    '[[ a =~ (<<E) ]]\nr""m x\nE',
    "bash -eo pipefail -c 'rm x'",
    "bash -euo pipefail -c 'rm x'",
    "bash -oc errexit 'r\"\"m x'",
    "bash -co errexit 'r\"\"m x'",
    "bash -cO extglob 'r\"\"m x'",
    "bash -eO extglob -c 'rm x'",
    "bash +eo posix -c 'rm x'",
    "sh -eo errexit -c 'rm x'",
    "set -- 'b[$(rm x)]'; (($1))",
    "set -- 'b[$(rm x)]'; echo $(($1))",
    "set -- 'b[$(rm x)]'; [[ $1 -eq 0 ]]",
    "set -- 'b[$(rm x)]'; echo ${!1}",
    "set -- 'b[$(rm x)]'; let \"y = $1\"",
    "set -- 'b[$(rm x)]'; declare -i v=$1",
    "set -- 'b[$(rm x)]'; declare -i v; v=$1",
    "set -- 'b[$(rm x)]'; declare -n v=$1; echo $v",
    "set -- 'b[$(rm x)]'; for ((i=$1;i<0;i++)); do :; done",
    "f() { echo $(($1)); }; f 'b[$(r\"m\" x)]'",
    "f() { [[ $1 -gt 0 ]]; }; f 'b[$(r\"m\" x)]'",
    "printf -v b 'q\\x5b\\x24(r\\x6d x)]'; ((b))",
    "printf -v b 'q\\x5b\\x24(r\\x6d x)]'; echo $((b+1))",
    "printf -v b 'q\\x5b\\x24(r\\x6d x)]'; a=(1); echo ${a[b]}",
    "printf -v b 'q\\x5b\\x24(r\\x6d x)]'; a[b]=1",
    "printf -v b 'q\\x5b\\x24(r\\x6d x)]'; c=1; echo ${c:b}",
    "printf -v b 'q\\x5b\\x24(r\\x6d x)]'; [[ b -eq 1 ]]",
    "printf -v b 'q\\x5b\\x24(r\\x6d x)]'; [[ $b -eq 1 ]]",
    "printf -v b 'q\\x5b\\x24(r\\x6d x)]'; echo ${!b}",
    "a='b[$'; a+='(r\\m x)]'; ((a))",
    "a='b[$'; c='(r\\m x)]'; d=$a$c; ((d))",
    "read b <<< \"$(printf 'q\\x5b\\x24(r\\x6d x)]')\"; ((b))",
    "n=$(printf 'q\\x5b\\x24(r\\x6d x)]'); ((n))",
    "n=$(printf 'q\\x5b\\x24(r\\x6d x)]'); echo $((n))",
    ": 'b[$(r\\m x)]'; ((_))",
    ": 'b[$(r\\m x)]'; echo $(($_))",
    "set -- 'b[$(r\\m x)]'; select i; do ((i)); break; done <<< 1",
    "set -- 'b[$(r\\m x)]'; for i; do ((i)); done",
    "set -- 'b[$(r\\m x)]'; for i do ((i)); done",
    "n=BASH_; declare -n q=${n}CMDS; printf -v 'q[y]' '/bin/r\\155'; y x",
    "n=CMDS; read -r \"BASH_${n}[y]\" <<< $(printf '/bin/r\\155'); y x",
    "n=CMDS; printf -v \"BASH_${n}[y]\" '/bin/r\\155'; y x",
    "mkfifo p; sh p & printf 'r\\155 x' > p; wait",
    "mkfifo p; sh p | printf 'r\\155 x' > p",
    "trap 'sh s' EXIT; printf 'r\\155 x' >s",
    "(sleep 0.2; sh s) & printf 'r\\155 x' >s; wait",
    "uniq - s <<< 'r\"\"m x'; sh s",
    "xxd -r -p - s <<< 726d20780a; sh s",
    "sort -o s <<< 'r\"\"m x'; sh s",
    "cp $(printf '/bin/r\\155') y; ./y x",
    "ln -s $(printf '/bin/r\\155') y; ./y x",
    "cd /dev; . ./stdin <<< 'r\"\"m ~/x'",
    'cd /dev; . stdin <<< \'cd "$HOME"; r""m ~/x\'',
    "cd /dev; sh fd/0 <<< 'r\"\"m ~/x'",
    "cd /; . dev/stdin <<< 'r\"\"m ~/x'",
    "ln -s /dev/stdin s; . ./s <<< 'r\\m x'",
    "ln -s /dev/stdin s; sh s <<< 'r\\m x'",
    "ln -s /dev/stdin s; printf 'r\\155 x' | sh s",
    "ln -s /proc/self/fd/0 s; printf 'r\\155 x' | sh s",
    '(( a = (1) << E ))\nr""m x\nE',
    "declare -A a\na[ #]=1; rm x",
    "declare -A a\na[a #]=1; rm x",
    "$\\\n'r\\x6d' x",
    "$\\\n'\\162\\155' x",
    'echo "$\\\n(rm x)"',
    'echo "$\\\n(r""m x)"',
    "shopt -s extglob\n/bin/+(r)m x",
    "shopt -s extglob\n/bin/@(r)m x",
    "shopt -s extglob\n/bin/r@(m) x",
    "bash -O extglob -c '/bin/@(r)m x'",
    "env -S 'r\"\"m x'",
    "env '-Sr\"\"m x'",
    "env --split-string='r\"\"m x'",
    "printf 'r\\155 x' >.bashrc; bash -ic :",
    "printf 'r\\155 x' >.bash_profile; bash -lc :",
    "printf 'r\\155 x' >.profile; sh -lc :",
    'n=FUNC; env "BASH_${n}_q%%=() { r\\\\m x; }" bash -c q',
    "n=FUNC; env \"BASH_${n}_echo%%=() { r\\\\m x; }\" bash -c 'echo a'",
    "n=S4; printf -v \"P$n\" '\\x24(r\\155 x)'; set -x; :",
    'n=S4; read -r "P$n" <<< "\\$(r\\\\m x)"; set -x; :',
    "n=S4; declare -n q=P$n; printf -v q '\\x24(r\\155 x)'; set -x; :",
    "i=0; printf -vi 'q\\x5b\\x24(r\\155 x)]'; ((i))",
    "i=0; printf -v i 'q\\x5b\\x24(r\\155 x)]'; ((i))",
    "i=0; read i <<< $(printf 'q\\x5b\\x24(r\\155 x)]'); ((i))",
    "i=0; for i in $(printf 'q\\x5b\\x24(r\\155${IFS}x)]'); do ((i)); done",
    "i=0; mapfile -t i <<< $(printf 'q\\x5b\\x24(r\\155 x)]'); ((i))",
    "printf -v b 'q\\x5b\\x24(r\\155 x)]'; read 'a[b]' <<< 1",
    "printf -v b 'q\\x5b\\x24(r\\155 x)]'; a=(1); unset 'a[b]'",
    "printf -v b 'q\\x5b\\x24(r\\155 x)]'; printf -v 'a[b]' y",
    "printf -v b 'q\\x5b\\x24(r\\155 x)]'; a=(1); test -v 'a[b]'",
    "printf -v b 'q\\x5b\\x24(r\\155 x)]'; a=(1); [[ -v a[b] ]]",
    "printf -v b 'q\\x5b\\x24(r\\155 x)]'; declare 'a[b]=1'",
    "printf -v b 'q\\x5b\\x24(r\\155 x)]'; a=(1); : $((a[b]))",
    "printf -v b 'q\\x5b\\x24(r\\155 x)]'; a=(1); : ${a[b]:-}",
    "printf -v b 'q\\x5b\\x24(r\\155 x)]'; a=(1); : ${#a[b]}",
    "printf -v b 'q\\x5b\\x24(r\\155 x)]'; x=abc; : ${x: b}",
    "printf -v b 'q\\x5b\\x24(r\\155 x)]'; x=abc; : ${x:0:b}",
    "printf -v b 'q\\x5b\\x24(r\\155 x)]'; while ((b)); do break; done",
    "printf -v b 'q\\x5b\\x24(r\\155 x)]'; ((c=b))",
    "printf -v b 'q\\x5b\\x24(r\\155 x)]'; c=b; ((c))",
    "printf -v b 'q\\x5b\\x24(r\\155 x)]'; [[ 1 -lt b ]]",
    "printf -v b 'q\\x5b\\x24(r\\155 x)]'; [[ ! 1 -ge $b ]]",
    "printf -v b 'q\\x5b\\x24(r\\155 x)]'; cat <<< $((b))",
    "printf -v b 'q\\x5b\\x24(r\\155 x)]'; : \"$((b))\"",
    "printf -v b 'q\\x5b\\x24(r\\155 x)]'; : $(( (b) ))",
    "printf -v b 'q\\x5b\\x24(r\\155 x)]'; : $(( ((b)) ))",
    "printf -v b 'q\\x5b\\x24(r\\155 x)]'; let b",
    "printf -v b 'q\\x5b\\x24(r\\155 x)]'; let c=b",
    "printf -v b 'q\\x5b\\x24(r\\155 x)]'; let \"c = $b\"",
    "printf -v b 'q\\x5b\\x24(r\\155 x)]'; declare -i c=b",
    "printf -v b 'q\\x5b\\x24(r\\155 x)]'; declare -ia c; c[0]=b",
    "printf -v b 'q\\x5b\\x24(r\\155 x)]'; local_() { local -i c=b; }; local_",
    "printf -v b 'q\\x5b\\x24(r\\155 x)]'; export b; bash -c '((b))'",
    "printf -v b 'q\\x5b\\x24(r\\155 x)]'; export b; bash -c 'echo $((b))'",
    "printf -v b 'q\\x5b\\x24(r\\155 x)]'; (((b)))",
    "printf -v b 'q\\x5b\\x24(r\\155 x)]'; ((b)) && true",
    "printf -v b 'q\\x5b\\x24(r\\155 x)]'; if ((b>0)); then :; fi",
    "printf -v b 'q\\x5b\\x24(r\\155 x)]'; for ((;b;)); do break; done",
    "o=-v; set -- $(printf 'q\\x5b\\x24(r\\155${IFS}x)]'); test $o $1",
    "o=-v; set -- $(printf 'q\\x5b\\x24(r\\155${IFS}x)]'); printf $o $1 y",
    "o=-v; set -- $(printf 'q\\x5b\\x24(r\\155${IFS}x)]'); [ $o $1 ]",
    "o=-v; set -- $(printf 'q\\x5b\\x24(r\\155${IFS}x)]'); [ ! $o $1 ]",
    "set -- $(printf 'q\\x5b\\x24(r\\155${IFS}x)]'); : ${!1}",
    "set -- $(printf 'q\\x5b\\x24(r\\155${IFS}x)]'); : \"${!1}\"",
    "set -- $(printf 'q\\x5b\\x24(r\\155${IFS}x)]'); : ${!@}",
    "set -- $(printf 'q\\x5b\\x24(r\\155${IFS}x)]'); : ${!1:-}",
    "(printf 'r\\155 x') > s; sh s",
    "printf 'r\\155 x' >s; bash -c 'sh s'",
    "printf 'r\\155 x' >s; bash -c '. ./s'",
    "printf 'r\\155 x' >s; eval . ./s",
    "printf 'r\\155 x' >s; eval 'sh s'",
    "printf 'r\\155 x' >s; trap '. ./s' EXIT",
    "printf '#!/bin/sh\\nr\\155 x' >ls; chmod +x ls; read PATH <<< .:$PATH; ls",
    "printf '#!/bin/sh\\nr\\155 x' >ls; chmod +x ls; for PATH in .:$PATH; do ls; done",
    "e=exec; find x \"-$e\" $'r\\x6d' {} \\;",
    "setpriv --nnp sh -c 'r\"\"m x'",
    "setarch x86_64 sh -c 'r\"\"m x'",
    "setarch x86_64 bash -euo pipefail -c 'r\"\"m x'",
    "flock . -c 'r\"\"m x'",
    "flock . sh -c 'r\"\"m x'",
    "script -qc 'r\"\"m x' /dev/null",
    "taskset 1 bash -c 'r\"\"m x'",
    "prlimit bash -c 'r\"\"m x'",
    "chrt -o 0 sh -c 'r\"\"m x'",
    "unshare sh -c 'r\"\"m x'",
    "shopt -s extglob\n/bin/@\\\n(r)m x",
    'shopt -s extglob\n/bin/"r"@(m) x',
    "shopt -s extglob\neval '/bin/@(r)m x'",
    "declare -A a; a=([ #]=1); rm x",
    "declare -A a; a=(b [ #]=1); rm x",
    "declare -A a=([ #]=1); rm x",
    "declare -A a\na\\\n[ #]=1; rm x",
    "declare -A a\na[\\\n #]=1; rm x",
    "declare -A a\na[x;'b' #]=1; rm x",
    '(( (1) << E ))\nr""m x\nE',
    '((\\\n1<<E))\nr""m x\nE',
    '(\\\n(1<<E))\nr""m x\nE',
    'if (( (1) << E )); then :; fi\nr""m x\nE',
    'for (( i=(1)<<E; i<0; )); do :; done\nr""m x\nE',
    'for (( i=0; i<0; i=(1)<<E )); do :; done\nr""m x\nE',
    '[[ a == @(<<E) ]]\nr""m x\nE',
    "[[ a =~ (#) ]] || rm x",
    "[[ a =~ ( #) ]] || rm x",
    "[[ 'a #' =~ a( #) ]] && rm x",
    "[[ a == @( #) ]] || rm x",
    "shopt -s extglob\ncase ' #' in @( #)) rm x;; esac",
    "shopt -s extglob\necho @( #); rm x",
    "shopt -s extglob\necho +(a|'b' #); rm x",
    'shopt -s extglob\necho @(<<E)\nr""m x\nE',
]
# The same of a rule that is about more than the name of a program.
FORCING = [
    'set -- rm -f x; "$@"',
    'set -- rm -f x; "${@}"',
    'set -- rm -f x; "${@:1}"',
    'a=(rm -f x); "${a[@]}"',
    'a=(rm -f); "${a[@]}" x',
    "set -- 1; for i do rm -f x; done",
    "for ((i=0;i<1;i++)) do rm -f x; done",
    "for ((i=0;i<1;i++)) { rm -f x; }",
    "rm -1f x",
    "read -a c <<< 'rm -f x'; \"${c[@]}\"",
    "mapfile -t c <<< $'rm\n-f\nx'; \"${c[@]}\"",
    'declare -a c=(rm -f x); "${c[@]}"',
    'local_() { local c=(rm -f x); "${c[@]}"; }; local_',
    'g() { local -a c; c=(rm -f x); "${c[@]}"; }; g',
    'c+=(rm); c+=(-f x); "${c[@]}"',
    'c=(rm\n-f\nx\n); "${c[@]}"',
    'c=(rm # y\n-f x); "${c[@]}"',
]

# Calculations, lists and jobs of an ordinary day: none of them runs `rm`, and that can be told.
PLAIN = [
    "echo no >&2; make 2>&1 >& log; exec 3>&-",
    "i=0; while [ $i -lt 5 ]; do echo $i; i=$((i+1)); done",
    'for ((i=0;i<3;i++)); do echo "$i"; done',
    "for i in 1 2 3; do echo $((i*2)); done",
    "for i in {1..5}; do echo $((i * 2)); done",
    "n=3; ((n++)); echo $n",
    "let n=1+2; echo $n",
    "echo $((2 + 3)) $(( (1 + 2) * 3 ))",
    "[[ $# -eq 0 ]] && echo none",
    "make; [[ $? -ne 0 ]] && echo failed",
    "n=5; if [[ $n -gt 3 ]]; then echo many; fi",
    "bash -euo pipefail -c 'npm ci && npm test'",
    'arr=(a b c); echo "${arr[@]}"; echo ${#arr[@]} ${arr[0]}',
    "./server > log 2>&1 & sleep 1; curl localhost",
    "mkdir -p out && cp a.txt out/ && ./run.sh",
    'if [[ "$x" =~ ^[0-9]+$ ]]; then echo n; fi',
    "ls foo[0-9].txt",
    "(cd sub && make)",
    "echo $SECONDS $((SECONDS / 60))",
    "bash script.sh < input.txt",
    "cp a.sh b.sh && sh b.sh",
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
def test_what_went_past_a_rule_once_is_seen(text: str, tmp_path: Path) -> None:
    _run(text, tmp_path)

    assert not (tmp_path / "x").exists(), "the shape is no longer one: bash does not run it"
    assert CommandTest("rm *").holds(text, cautious=True)


@pytest.mark.promise("pol-11")
@pytest.mark.parametrize("text", FORCING)
def test_options_and_lists_do_not_hide_the_rest_of_a_command(text: str) -> None:
    assert CommandTest("rm -f *").holds(text, cautious=True)
    assert CommandTest("git push *").holds(text.replace("rm -f x", "git push"), cautious=True) or (
        "rm -f x" not in text
    )


@pytest.mark.promise("pol-11")
@pytest.mark.parametrize("text", PLAIN)
def test_what_calculates_with_numbers_is_not_in_doubt(text: str) -> None:
    assert not CommandTest("rm *").holds(text, cautious=True)


@pytest.mark.promise("pol-7")
@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "unit",
    ["((", "$((", "$((a", "(((1)", "a[", "${a[", "$'\\", "{1..", "[[ a -eq ", "<<E\n", "$\\\n"],
)
def test_no_text_keeps_a_rule_waiting(unit: str) -> None:
    for tail in ("", ")", "]]", "}"):
        CommandTest("rm *").holds((unit * 4_096)[: 4_096 - len(tail)] + tail, cautious=True)
