"""What a skill asks for, what the user granted to it, and what changed since then."""
