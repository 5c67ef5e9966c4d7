"""What somebody still has to grant before a tool could run as it is."""

from kitbag.call_needs import CallNeeds
from kitbag.errors import KitbagError
from kitbag.tools import Tool
from kitbag.trust.errors import describe
from kitbag.trust.grant import missing
from kitbag.trust.grants import Grants


def missing_grants(tool: Tool) -> list[str]:
    """Say what a tool needs and its skill was not granted. A policy may give it all the same."""
    needs = CallNeeds().of(tool, "")
    if not needs:
        return []
    try:
        grant = Grants().find(tool.skill, tool.home)
    except KitbagError as error:  # grants that cannot be believed count for nothing
        return [str(error)]
    return [f"{describe(need)} is not granted" for need in missing(needs, grant)]
