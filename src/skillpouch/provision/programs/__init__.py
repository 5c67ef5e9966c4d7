"""Programs that skills fetch: checked against a hash, kept by content, never run half-fetched."""
