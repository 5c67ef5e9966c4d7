"""The folder that a call may write: opened without races, with what must not be written in it."""
