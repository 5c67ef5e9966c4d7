"""The program that runs bash scripts; it imports nothing of Skillpouch but its own folder."""
