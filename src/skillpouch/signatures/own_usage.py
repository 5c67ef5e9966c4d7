"""The usage line that a script prints or carries in its own text."""

import re

_LONGEST = 200
_USAGE = re.compile(r"\busage:[ \t]*+(?:(?:\\n|\n)[ \t#*/]*+)?([^\n]{1,400})", re.IGNORECASE)
# The ways in which languages name the script that is running.
_ITSELF = re.compile(
    r"\$\(basename [\"']?\$\{?(?:0|BASH_SOURCE\[0\])\}?[\"']?\)|`basename [\"']?\$0[\"']?`"
    r"|\$\{?0(?:##\*/)?\}?|\{(?:os\.path\.basename\()?sys\.argv\[0\]\)?\}|\{Path\(__file__\)\.name\}"
    r"|\$\{process\.argv\[1\]\}|#\{\$(?:0|PROGRAM_NAME)\}|%s|%prog|\{__file__\}"
)
_QUOTES = "\"'`"
_ENDS = re.compile(r"\\n|\*/")


def own_usage(text: str, filename: str = "") -> str:
    """What stands after the first `Usage:` of a script, on one line; "" without one."""
    match = _USAGE.search(text)
    if match is None:
        return ""
    line = _ITSELF.sub(lambda _: filename or "script", match.group(1))
    opened = text[text.rfind("\n", 0, match.start()) + 1 : match.start()].strip()[-1:]
    quote = opened if opened and opened in _QUOTES else ""
    line = line.partition(quote)[0] if quote else re.sub(r"(?:\"\"\"|''').*", "", line)
    return " ".join(_ENDS.split(line)[0].strip("` \t").split())[:_LONGEST].rstrip()
