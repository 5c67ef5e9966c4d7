"""What is said of the three tools by which an agent finds its way among skills."""

from collections.abc import Sequence

from skillpouch.builtins.workspace.definition import Definition, number, text


def activate_skill(names: Sequence[str]) -> Definition:
    """Describe the tool that gives the instructions of one of these skills."""
    return Definition(
        name="activate_skill",
        description=(
            "Load a skill before working on what it is for: its instructions, its files, and the"
            " tools it has."
        ),
        parameters={
            "name": text("the skill", enum=list(names)),
            "arguments": text("what the skill is to work on, if it asks for it", default=""),
        },
        required=("name",),
    )


def read_skill_file(names: Sequence[str]) -> Definition:
    """Describe the tool that shows a file of one of these skills."""
    return Definition(
        name="read_skill_file",
        description=(
            "Read a file of a skill, such as one that its instructions refer to: its lines with"
            " their numbers, or an image."
        ),
        parameters={
            "skill": text("the skill", enum=list(names)),
            "path": text("the file, relative to the folder of the skill"),
            "offset": number("lines to leave out at the start (0: from the first)", default=0),
            "limit": number("lines to show at most", minimum=1, default=2000),
        },
        required=("skill", "path"),
    )


def search_tools() -> Definition:
    """Describe the tool that finds skills and tools."""
    return Definition(
        name="search_tools",
        description=(
            "Find skills and tools by what they do, best first, with what each tool takes."
        ),
        parameters={
            "query": text("a few words about what is to be done"),
            "limit": number("how many to show at most", minimum=1, maximum=50, default=8),
        },
        required=("query",),
    )
