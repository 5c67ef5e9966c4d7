"""Skills like the ones people write, generated the same way every time."""

import random
from pathlib import Path

_WORDS = [
    "report",
    "table",
    "invoice",
    "image",
    "archive",
    "index",
    "chart",
    "record",
    "page",
    "letter",
    "event",
    "order",
]
_VERBS = [
    "extract",
    "convert",
    "merge",
    "split",
    "check",
    "rename",
    "sort",
    "filter",
    "count",
    "resize",
    "parse",
    "send",
]

_HEAD = '''#!/usr/bin/env python3
"""{verb} every {noun} that the user names.

Reads the input, applies the options and writes the result as JSON.
"""

import argparse
import json
import os
import sys
from pathlib import Path

DEFAULT_LIMIT = 50


class {kind}Error(Exception):
    """Something about the {noun} is wrong."""


'''
_FUNCTION = '''def {name}(items, limit=DEFAULT_LIMIT, *, strict=False):
    """Return the first {noun}s, cleaned."""
    found = []
    for number, item in enumerate(items):
        if number >= limit:
            break
        value = item.strip().lower()
        if not value and strict:
            raise {kind}Error(f"item {{number}} is empty")
        found.append({{"number": number, "value": value, "size": len(value)}})
    return sorted(found, key=lambda entry: (entry["size"], entry["value"]))


'''
_MAIN = """def main():
    parser = argparse.ArgumentParser(description="{verb} {noun}s")
    parser.add_argument("source", type=Path, help="the file to read")
    parser.add_argument("--output", "-o", default="out.json", help="where the result goes")
    parser.add_argument("--limit", type=int, default=DEFAULT_LIMIT, help="how many at most")
    parser.add_argument("--format", choices=["json", "text", "csv"], default="json")
    parser.add_argument("--strict", action="store_true", help="fail on empty items")
    parser.add_argument("--tag", action="append", default=[], help="repeatable")
    args = parser.parse_args()
    token = os.environ.get("SERVICE_TOKEN")
    try:
        items = args.source.read_text().splitlines()
        result = {first}(items, args.limit, strict=args.strict)
    except ({kind}Error, OSError) as error:
        print(f"error: {{error}}", file=sys.stderr)
        return 1
    print(json.dumps({{"items": result, "tags": args.tag, "signed": bool(token)}}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
"""


def generate(root: Path, count: int, *, scripts: int = 0, nested: bool = False) -> list[Path]:
    """Write `count` skills with `scripts` scripts each; return the SKILL.md files.

    The frontmatter is flat but for one short map, or `nested` as in most published skills.
    """
    page = _nested_page if nested else _page
    chance = random.Random(count)  # the same skills for the same size
    files = []
    for number in range(count):
        home = root / f"skill-{number:05d}"
        (home / "scripts").mkdir(parents=True)
        verb, noun = chance.choice(_VERBS), chance.choice(_WORDS)
        file = home / "SKILL.md"
        file.write_text(page(home.name, verb, noun, chance))
        files.append(file)
        for script in range(scripts):
            (home / "scripts" / f"{verb}_{script}.py").write_text(_script(verb, noun, chance))
    return files


def _page(name: str, verb: str, noun: str, chance: random.Random) -> str:
    prose = " ".join(chance.choice(_WORDS + _VERBS) for _ in range(400))
    return (
        f"---\nname: {name}\ndescription: Can {verb} a {noun} and tell what is in it. Use when the "
        f"user asks to {verb} something.\nlicense: MIT\nmetadata:\n  author: somebody\n"
        f'  version: "1.{chance.randrange(20)}"\nallowed-tools: Bash Read\n---\n\n'
        f"# {verb} a {noun}\n\n{prose}\n"
    )


def _nested_page(name: str, verb: str, noun: str, chance: random.Random) -> str:
    words = [chance.choice(_WORDS + _VERBS) for _ in range(6)]
    lines = (" ".join(chance.choice(_WORDS + _VERBS) for _ in range(9)) for _ in range(120))
    return (
        f"---\nname: {name}\ndescription: Can {verb} a {noun} and tell what is in it. Use when the "
        f"user asks to {verb} something.\nlicense: Apache-2.0\n"
        f"compatibility: Requires Python 3.11 and {words[0]}\nmetadata:\n  author: somebody\n"
        f'  version: "{chance.randrange(9)}.{chance.randrange(20)}.0"\n  category: {words[1]}\n'
        f"  tags: [{words[2]}, {words[3]}, {noun}]\n  requires:\n    bins: [python3, {words[4]}]\n"
        f"    network: false\n  stars: {chance.randrange(5000)}\n"
        f'allowed-tools: [Read, Write, "Bash(python3:*)"]\n---\n\n'
        f"# {verb} a {noun}\n\n" + "\n".join(lines) + "\n"
    )


def _script(verb: str, noun: str, chance: random.Random) -> str:
    kind = noun.capitalize()
    names = [f"{verb}_{noun}_{number}" for number in range(chance.randrange(4, 10))]
    functions = "".join(_FUNCTION.format(name=name, noun=noun, kind=kind) for name in names)
    head = _HEAD.format(verb=verb.capitalize(), noun=noun, kind=kind)
    return head + functions + _MAIN.format(verb=verb, noun=noun, kind=kind, first=names[0])
