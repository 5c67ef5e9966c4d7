"""Doors for agents that are not written in Python; what all of them need, and one folder each."""
