"""Folders of agent skills become tools: found, typed, checked, confined, recorded."""

__version__ = "0.1.0.dev0"
