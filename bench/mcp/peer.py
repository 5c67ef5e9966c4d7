"""The function served by FastMCP, over standard streams."""

from fastmcp import FastMCP

server = FastMCP("peer")


@server.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
def nothing() -> str:
    """Do nothing."""
    return ""


if __name__ == "__main__":
    server.run(show_banner=False)
