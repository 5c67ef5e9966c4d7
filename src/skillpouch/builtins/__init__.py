"""The tools that come with Skillpouch: files and bash, defining tools, finding skills."""
