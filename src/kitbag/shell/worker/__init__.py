"""The program that runs bash scripts; it imports nothing of kitbag but its own folder."""
