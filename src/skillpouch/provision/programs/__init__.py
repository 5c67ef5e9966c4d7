"""Programs that skills download: checked against a hash, kept by content, never run half done."""
