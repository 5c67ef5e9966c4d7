"""Finds skills below roots, indexes them, and watches for changes; also skills given as text."""
