"""The same function served by Kitbag, and a confined handler beside it, over standard streams."""

import sys

from kitbag import SkillManager, tool
from kitbag.servers.mcp import McpServer
from kitbag.servers.running import serve_until_signalled


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


if __name__ == "__main__":
    manager = SkillManager(sys.argv[1], workspace=sys.argv[2])
    server = McpServer(manager, tools=[add])
    serve_until_signalled(lambda stop: server.serve_stdio(stop=stop))
