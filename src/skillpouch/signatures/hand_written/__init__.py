"""Follows programs that read the words of their command line by hand."""
