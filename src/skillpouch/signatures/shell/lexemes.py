"""The pieces that shell text is cut into, one pattern for each kind of surroundings."""

import re

# A name in brackets is bounded, so that a text full of open brackets is not scanned again and
# again. Every pattern matches at least one character of any text.
_EXPANSIONS = r"""
    (?P<arithmetic>\$\(\()
    |(?P<substitution>\$\()
    |(?P<expansion>\$\{[\#!]?(?P<name>[A-Za-z_]\w*|[0-9]{1,9}+|[@*\#?!$-]|)(?:\[[^\]\n]{0,200}+\])?
        (?P<operator>:?[-=?+]|))
    |(?P<variable>\$(?:[A-Za-z_]\w*+|[0-9@*\#?!$-]))
    |(?P<backtick>`)
    |(?P<escape>\\.)
"""
CODE = re.compile(
    rf"""
    (?P<blank>(?:[ \t\r]|\\\n)++)
    |(?P<newline>\n)
    |(?P<hash>\#)
    |(?P<single>'[^']*+'?|\$'[^'\\]*+(?:\\.[^'\\]*+)*+'?)
    |(?P<double>\$?")
    |(?P<here_string><<<)
    |(?P<here_document><<-?[ \t]*+
        (?P<delimiter>\\?[\w.-]++|'[^'\n]{{0,200}}+'|"[^"\n]{{0,200}}+"))
    |{_EXPANSIONS}
    |(?P<open>[<>]?\()
    |(?P<close>\))
    |(?P<redirection>&>>?|[<>]&-?|>[>|]?|<>?)
    |(?P<separator>;;&?|;&|&&|\|\|?|;|&)
    |(?P<word>[^\s'"`\\$<>;&|()\#]++|.)
    """,
    re.DOTALL | re.VERBOSE,
)
SURROUNDINGS = {
    "double": re.compile(
        rf"""(?P<end_double>")|{_EXPANSIONS}|(?P<text>[^"$`\\]++|.)""", re.DOTALL | re.VERBOSE
    ),
    "brace": re.compile(
        rf"""(?P<end_brace>\}})|(?P<double>")|(?P<quote>')|{_EXPANSIONS}
        |(?P<text>[^\}}"'$`\\]++|.)""",
        re.DOTALL | re.VERBOSE,
    ),
    "arithmetic": re.compile(
        rf"""(?P<end_arithmetic>\)\)?)|(?P<inner>\()|{_EXPANSIONS}|(?P<text>[^()$`\\]++|.)""",
        re.DOTALL | re.VERBOSE,
    ),
}
SURROUNDINGS["inner"] = SURROUNDINGS["arithmetic"]

IN_HERE_DOCUMENT = re.compile(
    r"\\.|\$\{?(?P<name>[A-Za-z_]\w*|[0-9@*#])(?P<operator>:?[-=?+])?", re.DOTALL
)
FUNCTION = re.compile(r"function[ \t]+([\w:.-]+)(?:[ \t]*\([ \t]*\))?|([\w:.-]+)[ \t]*\([ \t]*\)")
ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[[^\]\n]{0,200}+\])?\+?=")
NAME = re.compile(r"[A-Za-z_]\w*")

OPENS = frozenset({"if", "while", "until", "for", "select", "case"})
CLOSES = frozenset({"fi", "done", "esac"})
BEFORE_COMMAND = frozenset({"if", "while", "until", "then", "do", "else", "elif", "!", "time", "{"})
KEYWORDS = OPENS | CLOSES | BEFORE_COMMAND | {"}"}
# Their words are names that get a value.
ASSIGN_NAMES = frozenset(
    {"local", "declare", "typeset", "readonly", "export", "read", "getopts", "mapfile"}
)
