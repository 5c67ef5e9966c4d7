"""The folder that a call may write: opened without races, with paths in it that stay read-only."""
