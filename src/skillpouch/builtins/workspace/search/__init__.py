"""Finds files and text. Imports nothing else of Skillpouch, because it runs confined, by path."""
