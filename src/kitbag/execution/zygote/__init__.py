"""The program that starts every tool: run by path with `-I -S`, importing nothing else of kitbag."""
