"""What a skill asks for, what the user granted it, and what changed since."""
