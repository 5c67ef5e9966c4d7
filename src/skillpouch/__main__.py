"""`python -m skillpouch` is `skillpouch`."""

from skillpouch.cli import main

if __name__ == "__main__":
    main()
