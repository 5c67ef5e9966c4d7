"""`python -m kitbag` is `kitbag`."""

from kitbag.cli import main

if __name__ == "__main__":
    main()
