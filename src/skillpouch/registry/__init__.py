"""Gives tools their names, resolves collisions, and lets tools come and go."""
