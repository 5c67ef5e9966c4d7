"""The policy files that the documentation shows are read without a problem."""

import re
from pathlib import Path

from skillpouch.policy.loading import parse_project, parse_user_policy

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "policy-file.md"


def test_the_files_on_the_page_are_accepted() -> None:
    blocks = re.findall(
        r"^```toml\n# (\S+)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )

    assert [name for name, _ in blocks] == ["policy.toml", "skillpouch.toml"]
    assert len(parse_user_policy(blocks[0][1].encode()).rules) == 4
    assert len(parse_project(blocks[1][1].encode()).requests) == 1
