"""Names become tools: ids, wire names, collisions, and tools that come and go."""
