"""What Skillpouch leans on in bashkit: to be run first when its version changes."""

import asyncio
from typing import Any

import pytest
from bashkit import Bash, BashError, BuiltinContext, BuiltinResult, ExecutionProfile, FileSystem

pytestmark = pytest.mark.slow


async def tool(context: BuiltinContext) -> BuiltinResult:
    return BuiltinResult(f"{context.name} {context.argv} {context.stdin!r}\n")


def shell(**settings: Any) -> Bash:
    return Bash(
        **{"custom_builtins": {"tool": tool}, "profile": ExecutionProfile.Interactive, **settings}
    )


async def output(script: str, **settings: Any) -> tuple[str, str, Any]:
    out, err = [], []

    def hear(stdout: str, stderr: str) -> None:
        out.append(stdout)
        err.append(stderr)

    ran = await shell(**settings).execute(script, hear)
    return "".join(out), "".join(err), ran


@pytest.mark.parametrize("name", ["tool", "skill.tool", "plugin:skill.tool", "größe", "a-b_c"])
async def test_any_id_is_a_command(name: str) -> None:
    out, _, _ = await output(f"{name} --a 1", custom_builtins={name: tool})

    assert out == f"{name} ['--a', '1'] None\n"


async def test_standard_input_is_text_or_none() -> None:
    out, _, _ = await output("tool; tool < /dev/null; echo x | tool; tool <<< hi")

    assert out == "tool [] None\ntool [] ''\ntool [] 'x\\n'\ntool [] 'hi\\n'\n"


async def test_what_was_printed_before_a_limit_is_heard_and_only_heard() -> None:
    out, _, ran = await output("echo a; while true; do :; done", max_commands=100)

    assert (out, ran.stdout, ran.exit_code) == ("a\n", "", 1)
    assert ran.error == "resource limit exceeded: maximum command count exceeded (100)"


@pytest.mark.parametrize("script", ["if then", 'echo "a', "for", "done"])
async def test_what_is_no_bash_is_a_parse_error(script: str) -> None:
    _, _, ran = await output(script)

    assert ran.error is not None
    assert ran.error.startswith("parse error")
    with pytest.raises(BashError):
        shell().analyze(script)


async def test_async_commands_run_side_by_side() -> None:
    together = asyncio.Barrier(3)

    async def meet(_context: BuiltinContext) -> str:
        async with asyncio.timeout(60):
            await together.wait()
        return "met\n"

    out, _, _ = await output("meet & meet & meet & wait", custom_builtins={"meet": meet})

    assert out == "met\nmet\nmet\n"


async def test_jobs_beyond_64_are_dropped_with_a_message_that_we_look_for() -> None:
    all_asked = asyncio.Event()
    begun: list[int] = []

    async def slow(_context: BuiltinContext) -> str:
        begun.append(1)
        await all_asked.wait()
        return "x\n"

    async def go(_context: BuiltinContext) -> str:
        all_asked.set()
        return ""

    out, err, ran = await output(
        "for i in $(seq 70); do slow & done; go; wait", custom_builtins={"slow": slow, "go": go}
    )

    dropped = err.count("fork: retry: Resource temporarily unavailable")
    assert (len(begun), out.count("x"), dropped, ran.exit_code) == (64, 64, 6, 0)


async def test_a_state_carries_variables_functions_and_files_but_no_mounts() -> None:
    first = shell()
    folder = FileSystem()
    folder.write_file("/x", b"mounted")
    first.mount("/m", folder, read_only=True)
    await first.execute("v=5; f() { echo f$v; }; echo hi > /tmp/a; cd /tmp")

    second = Bash.from_snapshot(first.snapshot(), custom_builtins={"tool": tool})
    ran = await second.execute("f; cat a; pwd; ls /m; tool")

    assert ran.stdout == "f5\nhi\n/tmp\ntool [] None\n"


async def test_a_mount_is_read_only_and_holds_any_bytes() -> None:
    bash = shell()
    folder = FileSystem()
    folder.write_file("/b", bytes(range(256)))
    bash.mount("/m", folder, read_only=True)

    ran = await bash.execute("echo z > /m/b || echo refused; wc -c < /m/b")

    assert ran.stdout.split() == ["refused", "256"]


async def test_a_new_file_system_is_not_empty() -> None:
    assert {entry["name"] for entry in FileSystem().read_dir("/")} == {"dev", "home", "tmp"}


async def test_stubs_replace_commands_of_the_engine() -> None:
    async def no(context: BuiltinContext) -> BuiltinResult:
        return BuiltinResult("", f"{context.name}: no\n", 126)

    names = ("curl", "wget", "http", "parallel")
    _, err, ran = await output("; ".join(names), custom_builtins=dict.fromkeys(names, no))

    assert err == "curl: no\nwget: no\nhttp: no\nparallel: no\n"
    assert ran.exit_code == 126


async def test_a_function_hides_a_command_and_command_finds_it() -> None:
    out, _, _ = await output("tool() { echo mine; }; tool; command tool")

    assert out == "mine\ntool [] None\n"


async def test_cancelling_both_ways_ends_a_loop_at_once() -> None:
    calls: list[str] = []

    async def count(_context: BuiltinContext) -> str:
        calls.append("x")
        return ""

    bash = shell(custom_builtins={"count": count}, max_commands=10**9, max_loop_iterations=10**9)
    running = asyncio.ensure_future(bash.execute("while true; do count; done", lambda _o, _e: None))
    async with asyncio.timeout(60):
        while not calls:
            await asyncio.sleep(0)

    bash.cancel()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert (await shell().execute("echo next")).stdout == "next\n"


def test_an_analysis_names_commands_and_admits_what_it_cannot_see() -> None:
    plain = shell().analyze("tool --id 1 | jq . > /out/x")
    opaque = [shell().analyze(text).is_opaque for text in ('eval "$x"', "$x --id 1", "t_$x 1")]

    assert (plain.command_names, plain.is_opaque) == (["tool", "jq"], False)
    assert [(each.path, each.is_write) for each in plain.redirects] == [("/out/x", True)]
    assert opaque == [True, True, True]


def test_the_engine_knows_the_names_of_its_own_commands() -> None:
    assert {"jq", "awk", "sed", "grep", "cat"} <= set(shell().capabilities().builtins)


async def test_a_word_that_nobody_knows_is_told_the_nearest_command() -> None:
    _, err, ran = await output("toool", custom_builtins={"tool": tool})

    assert "Did you mean: tool?" in err
    assert ran.exit_code == 127


async def test_functions_nest_sixteen_deep() -> None:
    _, _, ran = await output("f() { f; }; f")

    assert ran.error == "resource limit exceeded: maximum function depth exceeded (16)"


# Everything a script can change in its shell that another one could notice.
MESS = r"""
x=1; export y=2; readonly z=3; declare -i n=4; declare -A m=([a]=1); arr=(1 2 3)
f() { echo f; }; alias ll='ls -l'; trap 'echo bye' EXIT; trap 'echo err' ERR
set -u; set -o pipefail; set -f; shopt -s nullglob extglob; umask 077
cd /tmp; pushd / >/dev/null; mkdir -p /out/a /data; echo hi > /out/a/b; echo x > /home/user/q
ln -s /etc /tmp/l; chmod 000 /data; set -- p q r; IFS=,; OPTIND=7; PATH=/nowhere; HOME=/zzz
E=2; export E; tool() { echo hijacked; }; jq() { echo fake; }; unset TERM
exec 3>/tmp/fd3; exec >/dev/null
RANDOM=5; SECONDS=1000; read -r line <<< "abc"; printf -v pv hello; getopts ab opt -a
false | true; mapfile lines < /out/a/b; export -f f; exit 3
"""
LOOK = r"""
echo "$? $! $- $# $@ $_ $0 ${PIPESTATUS[*]} ${BASH_REMATCH[*]} $OPTIND $SECONDS E=$E IFS=[$IFS]"
set; declare -p; declare -f; alias; trap -p; shopt; set -o; umask; pwd; dirs; env; export -p; jobs
type tool jq echo ll f 2>&1; find / 2>/dev/null | sort; ls -la /tmp /home/user /out 2>&1 | wc -l
tool; echo '{"k":1}' | jq .k; echo *; readonly; ulimit -a 2>&1; hash; compgen -A function
"""


async def test_a_shell_that_is_reset_is_as_new() -> None:
    settings: dict[str, Any] = {"env": {"E": "1"}, "max_commands": 5_000}
    used = shell(**settings)
    ran = await used.execute(MESS)

    used.reset()
    again = await used.execute(LOOK)

    new = await shell(**settings).execute(LOOK)
    assert ran.exit_code == 3
    assert (again.stdout, again.stderr, again.exit_code) == (new.stdout, new.stderr, new.exit_code)
    assert "tool [] None" in new.stdout


async def test_a_shell_that_is_reset_has_its_limits_anew() -> None:
    used = shell(max_commands=1_000)
    stopped = await used.execute("while true; do :; done")

    used.reset()
    again = await used.execute("for i in $(seq 1 600); do :; done; echo done")

    assert stopped.error is not None
    assert (again.stdout, again.error) == ("done\n", None)
