"""Finding files and text; imports nothing of Skillpouch outside this folder, to run alone."""
