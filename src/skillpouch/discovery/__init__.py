"""Roots become skills: walked, read, indexed, watched for changes; skills given as text, too."""
