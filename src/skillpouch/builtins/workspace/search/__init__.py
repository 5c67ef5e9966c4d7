"""Finds files and text. Imports nothing else of Skillpouch: it runs confined, by path."""
