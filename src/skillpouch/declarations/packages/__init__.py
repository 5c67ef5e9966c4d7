"""Which packages a script declares: read here, never fetched."""
