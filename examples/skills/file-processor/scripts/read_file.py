#!/usr/bin/env python3
"""Read a text file, or some of its lines."""

import argparse
import json
import sys
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path, help="the file to read")
    parser.add_argument("--start", type=int, default=1, metavar="LINE", help="first line, from 1")
    parser.add_argument("--limit", type=int, metavar="LINES", help="how many lines at most")
    parser.add_argument("--encoding", default="utf-8", help="how the file is encoded")
    parser.add_argument("--format", choices=["text", "json"], default="text", help="what to print")
    parser.add_argument(
        "--number",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="put its number before each line",
    )
    args = parser.parse_args()

    try:
        content = args.path.read_bytes()
        lines = content.decode(args.encoding).splitlines(keepends=True)
    except (OSError, ValueError, LookupError) as error:
        print(f"cannot read {args.path}: {error}", file=sys.stderr)
        return 1

    first = max(args.start, 1) - 1
    last = len(lines) if args.limit is None else first + max(args.limit, 0)
    chosen = list(enumerate(lines, start=1))[first:last]
    text = "".join(f"{number}\t{line}" if args.number else line for number, line in chosen)
    if args.format == "json":
        report = {"path": str(args.path), "lines": len(lines), "bytes": len(content), "text": text}
        print(json.dumps(report))
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
