"""What a program finds around it in a sandbox: configuration of packages, `python`, terminals."""

import shutil
import textwrap
from pathlib import Path

import pytest

from skillpouch import Limits, SkillManager, ToolResult
from skillpouch.execution.confinement import SYSTEM
from skillpouch.execution.package_files import packaged_configuration, read_packages
from skillpouch.needs import Need
from skillpouch.trust.grants import Grants
from tests.conftest import WriteSkill

pytestmark = pytest.mark.slow
WARM, COLD = "", "#!/usr/bin/env -S python3 -X dev\n"


def called(
    write_skill: WriteSkill, tmp_path: Path, name: str, script: str, **files: str
) -> ToolResult:
    (tmp_path / "work").mkdir()
    for file, text in files.items():
        (tmp_path / "work" / file).write_text(text)
    root = write_skill(files={f"scripts/{name}": textwrap.dedent(script)}).parent
    return SkillManager(root, workspace=tmp_path / "work", cache=False).call("demo.tool")


def test_python_exists_where_only_python3_does(write_skill: WriteSkill, tmp_path: Path) -> None:
    script = """\
        # Ask.
        ask='import sys; print(sys.version_info >= (3,))'
        python -c "$ask"
        sh -c "python -c '$ask'"
        printf '#!/usr/bin/env python\\n%s\\n' "$ask" > own; chmod +x own; ./own
        """

    result = called(write_skill, tmp_path, "tool.sh", script)

    assert (result.stdout, result.stderr) == ("True\n" * 3, "")


@pytest.mark.parametrize("first", [WARM, COLD], ids=["warm", "cold"])
def test_a_program_has_terminals(write_skill: WriteSkill, tmp_path: Path, first: str) -> None:
    script = """\
        '''Use terminals.'''
        import os, pty, subprocess, termios, tty
        ours, theirs = pty.openpty()
        tty.setraw(theirs)
        termios.tcsetwinsize(ours, (30, 100))
        os.write(ours, b"typed")
        print(os.read(theirs, 5), os.get_terminal_size(theirs), os.isatty(theirs))
        shell = subprocess.run(["tty"], stdin=theirs, capture_output=True, text=True)
        print(shell.stdout.strip() == os.ttyname(theirs))
        """

    result = called(write_skill, tmp_path, "tool.py", first + textwrap.dedent(script))

    assert result.stdout == "b'typed' os.terminal_size(columns=100, lines=30) True\nTrue\n"
    assert result.warm is (first == WARM)


@pytest.mark.skipif(shutil.which("script") is None, reason="needs script(1)")
def test_script_records_a_session(write_skill: WriteSkill, tmp_path: Path) -> None:
    script = "# X.\nscript -qec 'test -t 1 && echo yes' f < /dev/null\n"

    result = called(write_skill, tmp_path, "tool.sh", script)

    assert result.stdout.strip() == "yes"


LOOK = """\
    '''Look at all files of a folder.'''
    import os, sys, json
    found = []
    for top in ("/etc", "/var"):
        for above, _, files in os.walk(top, followlinks=True):
            for name in files:
                path = f"{above}/{name}"
                try:
                    with open(path, "rb") as file:
                        file.read(1)
                except OSError:
                    continue
                found.append(path)
    print(json.dumps(found))
    """


@pytest.mark.promise("fs-8")
def test_nothing_of_etc_is_seen_but_what_packages_brought_and_every_program_needs(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    result = called(write_skill, tmp_path, "tool.py", LOOK)

    copies = packaged_configuration()
    seen = result.structured
    assert isinstance(seen, list)
    assert "/etc/passwd" in seen
    allowed = tuple(f"{path}/" for path in SYSTEM)
    rest = [path for path in seen if not f"{path}/".startswith(allowed)]
    assert [path for path in rest if not copies or not Path(copies + path).exists()] == []


@pytest.mark.promise("fs-8")
def test_programs_find_the_files_that_their_packages_brought(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    packages = read_packages()
    if packages is None:
        pytest.skip("this machine has no lists of packages that dpkg made")

    result = called(write_skill, tmp_path, "tool.py", LOOK)

    copies = Path(packaged_configuration())
    brought = [path for path in packages.brought if (copies / path[1:]).is_file()]
    assert len(brought) > 10
    assert isinstance(result.structured, list)
    assert set(brought) <= set(result.structured)


@pytest.mark.skipif(shutil.which("java", path="/usr/bin") is None, reason="needs Java")
def test_java_starts(write_skill: WriteSkill, tmp_path: Path) -> None:
    program = 'class Hi { public static void main(String[] a) { System.out.println("hi"); } }'
    script = "# X.\njava -Xmx128m Hi.java\n"

    result = called(write_skill, tmp_path, "tool.sh", script, **{"Hi.java": program})

    assert result.stdout == "hi\n", result.content


CONVERT = "# Convert.\nsoffice --headless --convert-to pdf letter.fodt >&2\n"
LETTER = (
    '<office:document xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
    'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" '
    'office:mimetype="application/vnd.oasis.opendocument.text"><office:body><office:text>'
    "<text:p>Dear Ada</text:p></office:text></office:body></office:document>"
)


@pytest.mark.skipif(shutil.which("soffice", path="/usr/bin") is None, reason="needs LibreOffice")
def test_libreoffice_converts_with_the_one_grant_that_the_failed_call_names(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "letter.fodt").write_text(LETTER)
    root = write_skill(files={"scripts/tool.sh": CONVERT}).parent
    limits = Limits(timeout_seconds=100)  # on a busy machine it needs more than the usual 30 s
    manager = SkillManager(root, workspace=work, cache=False, limits=limits)

    failed = manager.call("demo.tool")
    Grants().grant(manager.get_skill("demo"), [Need(kind="local-sockets")])
    converted = manager.call("demo.tool")

    assert failed.outcome == "failed"
    assert f"`skillpouch trust demo --local-sockets --root {root}`" in failed.notes[-1]
    assert converted.outcome == "ok", converted.content
    assert (work / "letter.pdf").read_bytes().startswith(b"%PDF-")


def test_a_pool_of_processes_works(write_skill: WriteSkill, tmp_path: Path) -> None:
    script = """\
        '''Work in a pool.'''
        import multiprocessing
        if __name__ == "__main__":
            with multiprocessing.Pool(2) as pool:
                print(pool.map(abs, [-1, -2]))
        """

    assert called(write_skill, tmp_path, "tool.py", script).stdout == "[1, 2]\n"
