#!/usr/bin/env -S uv run --script
# /// script
# requires-python = ">=3.9"
# dependencies = ["tabulate>=0.9"]
# ///
"""Print a CSV file as a table."""

import argparse
import csv
from pathlib import Path

from tabulate import tabulate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path, help="the CSV file; its first line names the columns")
    parser.add_argument(
        "--style",
        choices=["github", "simple", "html"],
        default="github",
        help="how the table is drawn",
    )
    args = parser.parse_args()

    with args.path.open(newline="", encoding="utf-8") as file:
        print(tabulate(csv.DictReader(file), headers="keys", tablefmt=args.style))


if __name__ == "__main__":
    main()
