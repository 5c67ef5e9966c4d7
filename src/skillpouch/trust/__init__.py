"""Who may have what: what a skill asks for, what it was granted, and what changed since."""
