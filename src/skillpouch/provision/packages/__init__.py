"""Cached environments that hold the packages a script declares it needs."""
