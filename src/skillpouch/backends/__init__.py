"""What runs a tool: one backend per kind."""
