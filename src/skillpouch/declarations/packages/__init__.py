"""What a script declares that it needs from package indexes: read, never fetched."""
