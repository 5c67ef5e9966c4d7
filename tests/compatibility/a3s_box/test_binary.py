"""A3S Box, binary tools: its examples as they stand, or what is said about what is missing."""

from pathlib import Path

import pytest

from skillpouch import SkillManager
from skillpouch.errors import CallDeniedError, CommandStartError, InvalidArgumentsError
from skillpouch.needs import Need
from skillpouch.policy import Question
from skillpouch.trust.requested import asks_of
from tests.backends.conftest import Download, certificate, download
from tests.conftest import WriteSkill
from tests.net.http.conftest import LOCAL

pytestmark = pytest.mark.slow

__all__ = ["certificate", "download"]

MY_BINARY = """\
name: my-skill
description: Execute.
tools:
  - name: my-binary
    description: Execute a custom binary
    backend:
      type: binary
      path: {path}
      args_template: "--input ${{input_file}} --output ${{output_file}}"
    parameters:
      type: object
      properties:
        input_file:
          type: string
        output_file:
          type: string
      required:
        - input_file
        - output_file
"""
PDF = """\
name: pdf-parser
description: Parse and extract text from PDF documents
tools:
  - name: pdf-extract
    description: Extract text from PDF
    backend:
      type: binary
      url: {url}
      args_template: "${{file_path}}"
    parameters:
      type: object
      properties:
        file_path:
          type: string
          description: Path to PDF file
      required:
        - file_path
"""
SHOW = '#!/bin/sh\nprintf "[%s]" "$@"\n'


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def test_the_binary_example_names_the_program_that_is_missing(
    write_skill: WriteSkill, work: Path
) -> None:
    front = MY_BINARY.format(path="/usr/local/bin/my-tool")
    manager = SkillManager(write_skill("my-skill", front).parent, workspace=work)
    [tool] = manager.get_skill_tools("my-skill")

    with pytest.raises(CommandStartError, match="/usr/local/bin/my-tool"):
        tool.invoke({"input_file": "a", "output_file": "b"})

    assert (tool.id, tool.name, tool.kind) == ("my-skill.my-binary", "my-binary", "binary")
    assert tool.ready is False
    assert manager.problems == []


def test_the_binary_example_runs_with_its_words_for_up_to_sixty_seconds(
    write_skill: WriteSkill, work: Path
) -> None:
    home = write_skill(
        "my-skill", MY_BINARY.format(path="bin/my-tool"), files={"bin/my-tool": SHOW}
    )
    (home / "bin/my-tool").chmod(0o755)
    manager = SkillManager(home.parent, workspace=work)

    result = manager.call("my-binary", {"input_file": "my file.txt", "output_file": "out"})

    assert result.output == "[--input][my file.txt][--output][out]"
    assert (result.exit_code, result.timeout_seconds) == (0, 60)
    with pytest.raises(InvalidArgumentsError, match="output_file"):
        manager.call("my-binary", {"input_file": "a"})


def test_output_is_limited_to_100_kb_and_whole_in_a_file(
    write_skill: WriteSkill, work: Path
) -> None:
    # The document cuts without a word; here the middle is left out, counted, and kept in a file.
    files = {"bin/my-tool": "#!/bin/sh\nhead -c 300000 /dev/zero | tr '\\0' x\n"}
    home = write_skill("my-skill", MY_BINARY.format(path="bin/my-tool"), files=files)
    (home / "bin/my-tool").chmod(0o755)

    result = SkillManager(home.parent, workspace=work).call(
        "my-binary", {"input_file": "a", "output_file": "b"}
    )

    assert result.truncated
    assert "[... 200000 bytes left out ...]" in result.stdout
    assert len(result.stdout) < 101_000
    assert [Path(path).stat().st_size for path in result.saved] == [300_000]


def test_the_pdf_example_asks_for_its_host_and_for_its_program(
    write_skill: WriteSkill, work: Path
) -> None:
    front = PDF.format(url="https://tools.example.com/pdf-extract")
    manager = SkillManager(write_skill("pdf-parser", front).parent, workspace=work)

    with pytest.raises(CallDeniedError) as caught:
        manager.call("pdf-extract", {"file_path": "a.pdf"})

    tools = manager.get_skill_tools("pdf-parser")
    assert asks_of(manager.get_skill("pdf-parser"), tools) == (
        Need(kind="host", value="tools.example.com", asked_in="SKILL.md (tool pdf-extract)"),
    )
    assert "skillpouch trust pdf-parser --host tools.example.com" in caught.value.hint


def test_the_pdf_example_is_fetched_once_and_run(
    write_skill: WriteSkill, work: Path, download: Download
) -> None:
    root = write_skill("pdf-parser", PDF.format(url=download.url)).parent
    asked: list[Question] = []

    def yes(question: Question) -> bool:
        asked.append(question)
        return True

    manager = SkillManager(root, workspace=work, policy=LOCAL, approver=yes)
    first = manager.call("pdf-extract", {"file_path": "my report.pdf"})
    second = manager.call("pdf-extract", {"file_path": "b.pdf"})

    assert (first.output, second.output) == ("[my report.pdf]", "[b.pdf]")
    assert (len(asked), download.asked) == (1, ["/tool"])


def test_a_declared_pattern_is_checked_before_anything_runs(
    write_skill: WriteSkill, work: Path
) -> None:
    front = MY_BINARY.format(path="bin/my-tool").replace(
        "        input_file:\n          type: string\n",
        "        input_file:\n          type: string\n"
        '          pattern: "^[a-zA-Z0-9_/-]+\\\\.pdf$"  # Validate format\n',
    )
    home = write_skill("my-skill", front, files={"bin/my-tool": SHOW})
    (home / "bin/my-tool").chmod(0o755)
    manager = SkillManager(home.parent, workspace=work)

    assert manager.call("my-binary", {"input_file": "a/b.pdf", "output_file": "o"}).exit_code == 0
    with pytest.raises(InvalidArgumentsError, match="input_file"):
        manager.call("my-binary", {"input_file": "a.pdf; rm -rf /", "output_file": "o"})
