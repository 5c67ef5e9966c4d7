"""Which process may serve a script, decided without starting any."""

from pathlib import Path
from typing import Any

import pytest

from skillpouch.backends.programs import warm_process_for
from skillpouch.execution.command import PreforkSpec, Prestarted
from skillpouch.tools import Script

SHARED = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONNOUSERSITE": "1"}
CWD = Path("/workspace")


def process_for(
    name: str = "x.py",
    runner: str = "",
    program: Any = ("/usr/bin/python3",),
    **own: Any,
) -> PreforkSpec | Prestarted | None:
    languages = {".py": "python", ".mjs": "javascript", ".ts": "typescript", ".sh": "shell"}
    script = Script(
        file=f"/skill/scripts/{name}",
        language=languages[Path(name).suffix],  # type: ignore[arg-type]  # one of them
        convention="handler" if runner else "stdin",
    )
    return warm_process_for(
        script, program=program, runner=runner, env=SHARED | own, shared_env=SHARED, cwd=CWD
    )


def test_a_python_script_is_forked_from_a_prefork_of_its_own() -> None:
    assert process_for(TOOL_ARGS="{}", PYTHONPATH="/skill/scripts") == PreforkSpec(
        program=("/usr/bin/python3",),
        script="/skill/scripts/x.py",
        runner="",
        folders=("/skill/scripts",),
        env=(*SHARED.items(), ("TOOL_ARGS", "{}")),
        cwd=CWD,
    )


def test_what_one_call_is_given_is_no_part_of_what_serves_it() -> None:
    assert process_for(TOOL_ARGS="1") == process_for(TOOL_ARGS="2", TOOL_ARG_A="x")


def test_folders_that_a_script_imports_from_are_its_own() -> None:
    found = process_for("sub/x.py", runner="/run.py", SKILLPOUCH_SCRIPTS="/skill/scripts")

    assert isinstance(found, PreforkSpec)
    assert (found.runner, found.folders) == ("/run.py", ("/skill/scripts/sub", "/skill/scripts"))


@pytest.mark.parametrize("name", ["x.mjs", "x.ts"])
def test_handlers_of_node_share_the_programs_that_wait(name: str) -> None:
    found = process_for(name, runner="/run.mjs", program=("/usr/bin/node", "--import=/h.mjs"))

    words = ("/usr/bin/node", "--import=/h.mjs", "/run.mjs", "--wait")
    assert found == Prestarted(argv=words, env=tuple(SHARED.items()), cwd=CWD)


@pytest.mark.parametrize("name", ["x.mjs", "x.sh"])
def test_scripts_without_a_handler_start_afresh(name: str) -> None:
    assert process_for(name) is None


@pytest.mark.parametrize(
    "variable",
    [
        *("PYTHONHASHSEED", "PYTHONUNBUFFERED", "PYTHONIOENCODING", "PYTHONWARNINGS", "PYTHONHOME"),
        *("LC_ALL", "LANGUAGE", "LD_PRELOAD", "MALLOC_ARENA_MAX", "OPENBLAS_NUM_THREADS"),
        *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NODE_OPTIONS", "NODE_PATH", "UV_THREADPOOL_SIZE"),
        *("SSL_CERT_FILE", "OPENSSL_CONF", "ICU_DATA"),
    ],
)
def test_a_variable_that_is_read_at_the_start_needs_a_start(variable: str) -> None:
    assert process_for(**{variable: "1"}) is None
    assert process_for("x.mjs", runner="/run.mjs", **{variable: "1"}) is None


def test_a_variable_that_every_call_has_needs_none() -> None:
    assert process_for(**SHARED) is not None
    assert process_for(PYTHONNOUSERSITE="2") is None


@pytest.mark.parametrize("variable", ["PYTHON", "TZ", "HOME", "MY_PYTHONPATH", "NODE", "UMASK"])
def test_other_variables_are_taken_up_by_a_call(variable: str) -> None:
    expected = variable != "PYTHON"  # nothing knows it, but it looks like one that is read

    assert (process_for(**{variable: "1"}) is not None) == expected


@pytest.mark.parametrize("options", [("-u",), ("-OO", "-B"), ("-I",), ("-E", "-s", "-S")])
def test_options_that_only_set_a_flag_are_passed_on(options: tuple[str, ...]) -> None:
    program = ("/usr/bin/python3", *options)

    found = process_for(program=program)

    assert isinstance(found, PreforkSpec)
    assert found.program == program


@pytest.mark.parametrize(
    "options", [("-W", "error"), ("-X", "dev"), ("-m", "pdb"), ("-i",), ("-v",), ("-c", "1")]
)
def test_other_options_need_a_start(options: tuple[str, ...]) -> None:
    assert process_for(program=("/usr/bin/python3", *options)) is None


def test_what_is_no_text_cannot_be_told_to_a_node_that_waits() -> None:
    assert process_for("x.mjs", runner="/run.mjs", SKILLPOUCH_WORKDIR="/w\udcff") is None
    assert process_for("x.py", SKILLPOUCH_WORKDIR="/w\udcff") is not None
