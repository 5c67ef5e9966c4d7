"""Skillpouch's tools in the words of other people's frameworks; each translates, none decides."""
