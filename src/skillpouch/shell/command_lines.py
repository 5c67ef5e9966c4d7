"""A command on a line: in full, shortly, or by its name."""

from skillpouch.shell.schema_shapes import properties_of
from skillpouch.shell.tool_def import ToolDef
from skillpouch.shell.usage import usage_line
from skillpouch.text import clean

_LONGEST = 100


def one_line(text: str) -> str:
    """Return a text as one line, without what a reader does not see."""
    return " ".join(clean(text).split())


def full_lines(tool: ToolDef) -> str:
    """Return what a command does and, when it takes anything, how it is written."""
    line = f"- `{tool.name}`: {one_line(tool.description)}\n"
    if not properties_of(tool.input_schema):
        return line
    return f"{line}  Usage: `{usage_line(tool)}`\n"


def short_line(tool: ToolDef) -> str:
    """Return what a command does, in a sentence or a part of one."""
    text = one_line(tool.description)
    sentence = text.partition(". ")[0].removesuffix(".")
    if len(sentence) > _LONGEST:
        sentence = f"{sentence[:_LONGEST].rpartition(' ')[0] or sentence[:_LONGEST]} …"
    return f"- `{tool.name}`: {sentence}\n"
