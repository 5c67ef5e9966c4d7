"""Servers for agents in other programs: MCP and gRPC, and what both share."""
