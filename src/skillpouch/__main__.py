"""Makes `python -m skillpouch` the same as `skillpouch`."""

from skillpouch.cli import main

if __name__ == "__main__":
    main()
