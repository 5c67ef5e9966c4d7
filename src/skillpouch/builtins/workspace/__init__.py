"""Skillpouch's own tools for the workspace: bash, read, write, edit, grep, glob, ls."""
