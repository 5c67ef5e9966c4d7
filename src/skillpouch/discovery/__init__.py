"""Finds skills below roots, indexes them, and watches for changes; also skills passed as text."""
