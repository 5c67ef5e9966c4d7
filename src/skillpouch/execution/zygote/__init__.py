"""The program that starts every tool: run by path, importing nothing else of skillpouch."""
