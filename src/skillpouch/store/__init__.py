"""Private database files of the user."""
