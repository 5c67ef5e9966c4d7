"""Python: argparse, click, typer, handler and main, read from the syntax tree."""
