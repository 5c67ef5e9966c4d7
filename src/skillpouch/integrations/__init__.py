"""Skillpouch's tools for other frameworks; each module translates, and none decides."""
