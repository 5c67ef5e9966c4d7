"""Finding files and text; imports nothing of Kitbag outside this folder, so it can run alone."""
