"""Environments with the packages that scripts declare, built once and cached."""
