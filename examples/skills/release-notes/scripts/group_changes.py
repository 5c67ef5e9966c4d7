"""Group commit subjects by kind and write them as a Markdown list."""

import json
import re
import sys
from pathlib import Path

SUBJECT = re.compile(r"(?P<kind>[a-z]+)(\((?P<part>[^)]+)\))?(?P<breaking>!)?: (?P<text>.+)")
HEADINGS = {"feat": "Added", "fix": "Fixed", "perf": "Faster", "docs": "Documented"}
ORDER = ["Breaking", *HEADINGS.values(), "Other"]


def place(subject):
    """The heading a subject belongs under, and the line written there."""
    match = SUBJECT.fullmatch(subject)
    if not match:
        return "Other", subject
    heading = "Breaking" if match["breaking"] else HEADINGS.get(match["kind"], "Other")
    return heading, match["text"] + (f" ({match['part']})" if match["part"] else "")


def handler(args):
    changes = args.get("changes")
    if "file" in args:
        path = Path(args.get("__workDir", "."), args["file"])
        changes = path.read_text(encoding="utf-8").splitlines()
    if not changes:
        raise ValueError("nothing to group: give changes or a file that has some")

    groups = {heading: [] for heading in ORDER}
    for subject in filter(None, map(str.strip, changes)):
        heading, line = place(subject)
        groups[heading].append(line)
    groups = {heading: lines for heading, lines in groups.items() if lines}
    sections = (
        f"## {heading}\n\n" + "".join(f"- {line}\n" for line in lines)
        for heading, lines in groups.items()
    )
    return {
        "markdown": "\n".join(sections),
        "counts": {heading: len(lines) for heading, lines in groups.items()},
    }


if __name__ == "__main__":
    args = json.loads(sys.argv[1]) if len(sys.argv) > 1 else json.load(sys.stdin)
    print(json.dumps(handler(args)))
