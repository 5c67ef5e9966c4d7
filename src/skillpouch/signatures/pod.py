"""What a Perl program's POD says about it."""

import re

_HEADING = re.compile(r"=head1\s+(.*)")
_COMMAND = re.compile(r"=[a-zA-Z]")
_FORMAT = re.compile(r"[A-Z]<+\s?([^<>]*?)\s?>+")
_NAME = re.compile(r"\S+\s+(?:-+|–|—)\s+(.*)", re.DOTALL)  # noqa: RUF001


def described_in_pod(text: str) -> str:
    """The part of `NAME` after its dash, or the description, or the synopsis."""
    if "=head1" not in text:
        return ""
    sections = _sections(text)
    name = _NAME.match(sections.get("NAME", ""))
    found = (
        name.group(1) if name else "",
        sections.get("DESCRIPTION", ""),
        sections.get("SYNOPSIS", ""),
    )
    return next((each for each in found if each), "")


def _sections(text: str) -> dict[str, str]:
    """The plain text directly below each main heading."""
    sections: dict[str, list[str]] = {}
    current: list[str] = []
    for line in text.replace("\r\n", "\n").split("\n"):
        if heading := _HEADING.match(line):
            current = sections.setdefault(heading.group(1).strip().upper(), [])
        elif _COMMAND.match(line):
            current = []
        else:
            current.append(line.strip())
    return {name: _plain("\n".join(lines)) for name, lines in sections.items()}


def _plain(text: str) -> str:
    """Without format codes such as `B<bold>`, two levels deep."""
    return _FORMAT.sub(r"\1", _FORMAT.sub(r"\1", text)).strip()
