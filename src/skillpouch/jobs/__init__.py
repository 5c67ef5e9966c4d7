"""Calls that outlive their caller."""
