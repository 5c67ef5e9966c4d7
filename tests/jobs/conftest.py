from pathlib import Path

import pytest

from skillpouch import SkillManager

SCRIPTS = {
    "scripts/hello.py": 'def handler(args):\n    """Say hello."""\n    return "hello"\n',
    "scripts/fail.py": 'import sys\nprint("oh", file=sys.stderr)\nsys.exit(3)\n',
    # Appends its argument to a file, which shows how often it ran, then waits for another file.
    "scripts/gated.sh": '#!/bin/bash\n# Wait for a file.\necho "$1" >> ran\necho begun\n'
    'for _ in $(seq 6000); do [ -e "go-$1" ] && exit 0; sleep 0.01; done; exit 1\n',
    "scripts/mark.sh": '#!/bin/bash\n# Append a word.\necho "$1" >> ran\n',
    "scripts/secret.sh": '#!/bin/bash\n# Show a secret.\necho "it is $DEMO_TOKEN"\n',
}


@pytest.fixture
def manager(tmp_path: Path) -> SkillManager:
    """A manager of the skill `demo`, whose calls write directly: tests meet them while they run."""
    home = tmp_path / "skills/demo"
    for name, text in SCRIPTS.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (home / "SKILL.md").write_text("---\nname: demo\ndescription: Demo.\n---\nDo it.\n")
    (tmp_path / "work").mkdir()
    return SkillManager(tmp_path / "skills", workspace=tmp_path / "work", writes="direct")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """The workspace of `manager`."""
    return tmp_path / "work"
