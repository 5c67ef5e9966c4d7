"""The program that runs bash scripts; it imports nothing of skillpouch but its own folder."""
