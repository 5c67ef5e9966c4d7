"""LangChain tools §5.4: the errors of scripts, their facts, their texts and their tree."""

import pytest

from skillpouch import SkillpouchError
from skillpouch.errors import (
    CallDeniedError,
    ScriptExecutionError,
    ScriptTimeoutError,
    SkillInvocationError,
    SkillNotFoundError,
    ToolRestrictionError,
)

pytestmark = pytest.mark.slow


def test_a_failed_script_has_an_exit_code_and_keeps_its_stderr() -> None:
    plain = ScriptExecutionError("Script execution failed: no such file")
    detailed = ScriptExecutionError("Script execution failed", exit_code=3, stderr="no such file")

    assert (str(plain), plain.exit_code, plain.stderr) == (
        "Script execution failed: no such file",
        1,
        "",
    )
    assert (detailed.exit_code, detailed.stderr) == (3, "no such file")


def test_a_timeout_says_how_long_it_waited_and_has_the_exit_code_of_gnu_timeout() -> None:
    error = ScriptTimeoutError("scripts/extract.py", 30)

    assert str(error) == "Script timed out after 30s: scripts/extract.py"
    assert error.exit_code == 124


def test_a_restriction_names_the_skill_and_what_it_allows() -> None:
    error = ToolRestrictionError("pdf-extractor", ["Read", "Write"])

    assert str(error) == (
        "Tool 'Bash' not allowed for skill 'pdf-extractor'. Allowed: ['Read', 'Write']"
    )


# §5.4 derives all three from langchain_core.tools.base.ToolError, which does not exist
# (notes/dependencies.md); Skillpouch draws the tree they stand in.
def test_the_script_errors_stand_in_one_tree() -> None:
    assert issubclass(ScriptTimeoutError, ScriptExecutionError)
    assert issubclass(ScriptExecutionError, SkillInvocationError)
    assert issubclass(SkillInvocationError, SkillpouchError)
    assert issubclass(ToolRestrictionError, CallDeniedError)
    assert issubclass(CallDeniedError, SkillpouchError)
    assert issubclass(SkillNotFoundError, SkillpouchError)
