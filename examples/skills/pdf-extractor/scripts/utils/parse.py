#!/usr/bin/env python3
"""Parse one PDF content stream and list the lines of text it draws."""

import argparse
import json
import re

# A string's opening, an operator, or anything else up to the next delimiter (numbers, /Names).
TOKEN = re.compile(r"(?P<open>\()|(?P<operator>[A-Za-z'\"][A-Za-z0-9*]*)|[^\s()\[\]]+")
ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
SHOW = {"Tj", "TJ", "'", '"'}
NEW_LINE = {"T*", "Td", "TD", "Tm", "'", '"', "BT"}


def literal_string(stream: str, start: int) -> tuple[str, int]:
    """The string that opens at `start`, and where it ends. Balanced parentheses belong to it."""
    text, depth, at = [], 1, start + 1
    while at < len(stream):
        character = stream[at]
        if character == "\\":
            piece, at = escape(stream, at + 1)
            text.append(piece)
            continue
        depth += (character == "(") - (character == ")")
        at += 1
        if depth == 0:
            break
        text.append(character)
    return "".join(text), at


def escape(stream: str, at: int) -> tuple[str, int]:
    octal = re.compile(r"[0-7]{1,3}").match(stream, at)
    if octal:
        return chr(int(octal[0], 8) & 0xFF), octal.end()
    if stream.startswith("\n", at):  # a line end after a backslash only breaks the source
        return "", at + 1
    character = stream[at : at + 1]
    return ESCAPES.get(character, character), at + 1


def text_lines(stream: str) -> list[str]:
    """The text that the stream's operators show, one entry per line on the page."""
    lines, waiting, at = [""], [], 0
    while token := TOKEN.search(stream, at):
        at = token.end()
        if token["open"]:
            text, at = literal_string(stream, token.start())
            waiting.append(text)
        elif token["operator"]:
            if token["operator"] in NEW_LINE:
                lines.append("")
            if token["operator"] in SHOW:
                lines[-1] += "".join(waiting)
            waiting = []
    return [line for line in lines if line]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stream", help="the drawing operators, such as 'BT (Hello) Tj ET'")
    print(json.dumps(text_lines(parser.parse_args().stream)))


if __name__ == "__main__":
    main()
