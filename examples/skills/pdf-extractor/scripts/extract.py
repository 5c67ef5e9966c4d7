#!/usr/bin/env python3
"""Extract the text of a PDF file, page by page.

Reads content streams that are not compressed, in the order they have in the file.
"""

import argparse
import json
import re
import sys
from pathlib import Path

from utils.parse import text_lines

STREAM = re.compile(rb"<<(?P<entries>[^<>]*)>>\s*stream\r?\n(?P<data>.*?)\r?\nendstream", re.DOTALL)


def read_pages(pdf: bytes) -> list[str]:
    """The text of every page; a page that is compressed is empty and named on stderr."""
    if not pdf.startswith(b"%PDF-"):
        raise ValueError("not a PDF: it does not start with %PDF-")
    pages = []
    for number, stream in enumerate(STREAM.finditer(pdf), start=1):
        if b"/Filter" in stream["entries"]:
            print(f"page {number} is compressed and was left out", file=sys.stderr)
            pages.append("")
        else:
            pages.append("\n".join(text_lines(stream["data"].decode("latin-1"))))
    return pages


def main() -> int:
    parser = argparse.ArgumentParser(description="Extract the text of a PDF file, page by page.")
    parser.add_argument("pdf", type=Path, help="the PDF file")
    parser.add_argument(
        "--page", type=int, action="append", metavar="N", help="only this page; may be repeated"
    )
    parser.add_argument("--json", action="store_true", help="print a list of pages as JSON")
    args = parser.parse_args()

    try:
        pages = read_pages(args.pdf.read_bytes())
    except (OSError, ValueError) as error:
        print(f"cannot read {args.pdf}: {error}", file=sys.stderr)
        return 1

    wanted = args.page or range(1, len(pages) + 1)
    missing = [number for number in wanted if not 1 <= number <= len(pages)]
    if missing:
        print(f"there is no page {missing[0]}: {args.pdf} has {len(pages)}", file=sys.stderr)
        return 1
    chosen = [{"page": number, "text": pages[number - 1]} for number in wanted]
    print(json.dumps(chosen) if args.json else "\n\n".join(page["text"] for page in chosen))
    return 0


if __name__ == "__main__":
    sys.exit(main())
