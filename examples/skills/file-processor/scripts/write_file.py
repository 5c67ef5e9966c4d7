#!/usr/bin/env python3
"""Write text to a file in the current directory or below it."""

import argparse
import sys
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path, help="the file to write, inside the current directory")
    parser.add_argument("text", help="what to write; a line end is added when it has none")
    existing = parser.add_mutually_exclusive_group()
    existing.add_argument("--append", action="store_true", help="add to a file that is there")
    existing.add_argument("--keep", action="store_true", help="fail when the file is there")
    args = parser.parse_args()

    # Resolved first, so that neither `..` nor a symbolic link leads out of the directory.
    target = args.path.resolve()
    if not target.is_relative_to(Path.cwd().resolve()):
        print(f"{args.path} is outside the current directory", file=sys.stderr)
        return 1

    content = (args.text if args.text.endswith("\n") else args.text + "\n").encode()
    mode = "ab" if args.append else "xb" if args.keep else "wb"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open(mode) as file:
            file.write(content)
    except OSError as error:
        print(f"cannot write {args.path}: {error.strerror}", file=sys.stderr)
        return 1

    print(f"{'added' if args.append else 'wrote'} {len(content)} bytes to {args.path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
