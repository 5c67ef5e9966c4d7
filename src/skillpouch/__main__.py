"""Makes `python -m skillpouch` the same as `skillpouch`."""

import os
import sys


def _leave_out_current_folder() -> None:
    """Import nothing from the current folder, which -m puts in front of all others.

    Tools may write there, and what they write must not become part of what confines them.
    """
    try:
        here = os.getcwd()  # noqa: PTH109 - pathlib is not needed for anything else
    except OSError:  # it was removed
        here = ""
    if sys.path[:1] in ([here], [""]):
        del sys.path[0]


if __name__ == "__main__":
    _leave_out_current_folder()
    from skillpouch.cli import main  # only now

    main()
