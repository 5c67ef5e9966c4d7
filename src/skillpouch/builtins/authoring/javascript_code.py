"""The body of a JavaScript function, made into the script of a tool."""

import re

from skillpouch.errors import ToolFaultError
from skillpouch.signatures.javascript.exports import default_export
from skillpouch.signatures.javascript.tokens import Code, read_tokens

_IMPORT = re.compile(r"\s*import\b[^'\"`;]*?['\"][^'\"\n]+['\"][ \t]*;?[ \t]*(?:\n|\Z)")
_BRACKETS = frozenset(("(", ")", "[", "]", "{", "}", "${"))
# Words that no Python has: enough to tell which of the two a body is.
_ONLY_HERE = re.compile(
    r"(?<![\w.$])(?:const|let|var|function|new|typeof)\s+[\w{\[(]|=>|===|!==|\|\||&&"
)


def is_javascript(code: str) -> bool:
    """Tell whether a text that is no Python looks like JavaScript."""
    return _ONLY_HERE.search(code) is not None


def javascript_module(code: str, description: str) -> str:
    """Return a module whose default export does what the code says.

    The code is the body of `async function handler(args)`, imports first if it has any, or a
    module that exports a function by itself.
    """
    text = code.replace("\r\n", "\n").replace("\r", "\n").strip("\n")
    tokens = read_tokens(text)
    _require_balance(tokens, text)
    module = text if default_export(tokens) is not None else _wrapped(text)
    # A line end in JavaScript is not only what it is elsewhere.
    said = " ".join(re.split(r"[\u2028\u2029]", description))
    return f"// {said}\n\n{module}\n"


def _wrapped(text: str) -> str:
    """Put the body into a function; imports can only stand outside of it."""
    end = 0
    while found := _IMPORT.match(text, end):
        end = found.end()
    imports = text[:end].strip()
    head = f"{imports}\n\n" if imports else ""
    return f"{head}export default async function handler(args) {{\n{text[end:]}\n}}"


def _require_balance(code: Code, text: str) -> None:
    """Refuse a body that would close the function it is put into, or never end it."""
    for position, token in enumerate(code.tokens):
        if (
            token.kind == "punctuation"
            and token.text in _BRACKETS
            and position not in code.partners
        ):
            line = text.count("\n", 0, token.start) + 1
            message = f"code: line {line}: {token.text!r} without its other half"
            raise ToolFaultError("invalid_argument", message)
