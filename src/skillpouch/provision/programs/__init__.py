"""Programs that skills download: checked against a hash, stored by it, never run incomplete."""
