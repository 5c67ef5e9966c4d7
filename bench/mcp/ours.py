"""The same function served by Skillpouch, and a confined handler beside it, over stdio."""

import sys

from skillpouch import SkillManager, tool
from skillpouch.servers.lifecycle import serve_until_signalled
from skillpouch.servers.mcp import McpServer


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


if __name__ == "__main__":
    manager = SkillManager(sys.argv[1], workspace=sys.argv[2])
    server = McpServer(manager, tools=[add])
    serve_until_signalled(lambda stop: server.serve_stdio(stop=stop))
