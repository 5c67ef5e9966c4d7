import pytest

from skillpouch.signatures.shebang import read_shebang


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("#!/usr/bin/env python3", ("python3",)),
        ("#!/usr/bin/env -S python3 -u", ("python3", "-u")),
        ("#!/usr/bin/env -Spython3 -u", ("python3", "-u")),
        ("#!/usr/bin/python3.12 -I", ("python3.12", "-I")),
        ("#!/bin/bash", ("bash",)),
        ("#!/bin/bash -e -x", ("bash", "-e", "-x")),
        ("#! /bin/sh", ("sh",)),
        ("#!/bin/zsh", ("zsh",)),
        ("#!/opt/homebrew/bin/bash", ("bash",)),
        ("#!/usr/bin/env node", ("node",)),
        ("#!/usr/bin/env npx tsx", ("npx", "tsx")),
        ("#!/usr/bin/env -S npx ts-node --esm", ("npx", "ts-node", "--esm")),
        ("#!/usr/bin/env bun", ("bun",)),
        ("#!/usr/bin/env tsx", ("tsx",)),
        (
            "#!/usr/bin/env -S uv run --script --quiet",
            ("uv", "run", "--script", "--quiet"),
        ),
        ("#!/usr/bin/env -S PYTHONUNBUFFERED=1 python3", ("python3",)),
        ("#!/usr/bin/env osascript -l JavaScript", ("osascript", "-l", "JavaScript")),
        ("#!/usr/bin/env ruby -w", ("ruby", "-w")),
        ("\ufeff#!/usr/bin/perl -w", ("perl", "-w")),
    ],
)
def test_a_known_interpreter_and_its_flags_are_read(line: str, words: tuple[str, ...]) -> None:
    assert read_shebang(f"{line}\nprint 1\n") == words
    assert read_shebang(f"{line}\r\nprint 1\r\n".encode()) == words


@pytest.mark.parametrize(
    "text",
    [
        "",
        "#",
        "#!",
        "#!/usr/bin/env",
        "#!/usr/bin/env -S",
        "# not a shebang\n#!/bin/bash\n",
        "#!/home/ada/project/.venv/bin/python\n",
        "#!/opt/secret/bin/interpreter\n",
        "#!/usr/bin/env my-own-tool\n",
        "#!/usr/bin/python2\n",
        "#!/bin/bash\\nset -e\\necho hello\\n",
        "#!/usr/bin/env -S bash -c 'rm -rf x'\n",
        "#!/bin/bash $(id)\n",
        "#!/bin/bash \0\n",
        f"#!/bin/bash {'-x ' * 200}\n",
        f"#!/bin/bash {'-x ' * 200}",
    ],
)
def test_everything_else_is_ignored(text: str) -> None:
    assert read_shebang(text) == ()
    assert read_shebang(text.encode()) == ()


def test_bytes_that_are_no_text_are_ignored() -> None:
    assert read_shebang(b"\xff\xfe#!/bin/bash\n") == ()
    assert read_shebang(b"#!/bin/bash \xff\n") == ()
