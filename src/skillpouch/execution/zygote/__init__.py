"""The program that makes sandboxes; it runs by path and imports nothing else of Skillpouch."""
