"""The tools that come with Skillpouch: for files and commands, defining tools, finding skills."""
