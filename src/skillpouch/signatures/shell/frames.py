"""What is open at a place in a shell script: quotes, braces, parentheses, a function's body."""

from dataclasses import dataclass
from typing import NamedTuple


class Place(NamedTuple):
    """Where in a command the walk is."""

    at_command: bool = True  # the next word is a command
    in_word: bool = False
    assigning: str = ""  # the command whose words are names that get a value


BEGIN = Place()


@dataclass(slots=True)
class Frame:
    """Something open: quotes, braces, parentheses, the body of a function."""

    kind: str
    scope: str = ""
    is_body: bool = False  # the script itself or a function
    for_value: bool = False
    nesting: int = 0  # open conditions and loops around it
    cases: int = 0  # open `case` statements directly inside: their `)` close nothing
    read: int = -1  # the expansion whose braces these are
    start: int = 0
    outer: Place = BEGIN
