"""Folders and files: which of them a granted one covers, whatever way they are spelt."""

import os

from skillpouch.environment import home_directory


def real_path(path: str) -> str:
    """Return where a path really leads, without links, `.` and `..`; "" for what is no path.

    It need not exist: what is not there yet leads to where it would be.
    """
    if not path.startswith("/"):
        return ""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):  # a loop of links; a NUL
        return ""


def covers_path(granted: str, needed: str) -> bool:
    """Tell whether a granted path is, or is above, what is needed.

    `granted` is as it was really found when it was granted: a link that was put in its place
    since does not move the grant. The home, and whatever it lies in, is covered by a grant of
    exactly that, and by nothing above it.
    """
    found = real_path(needed)
    if not found or not _is_plain(granted):
        return False
    if found == granted:
        return True
    return is_below(found, granted) and not holds_home(found)


def is_below(path: str, folder: str) -> bool:
    """Tell whether a plain path lies inside a folder, and is not the folder itself."""
    return path != folder and path.startswith(folder if folder == "/" else f"{folder}/")


def holds_home(path: str) -> bool:
    """Tell whether a plain path is the user's home, or a folder in which it lies."""
    home = home_directory()
    if home is None:
        return path == "/"
    real = os.path.realpath(home)
    return path == real or is_below(real, path)


def _is_plain(path: str) -> bool:
    return path.startswith("/") and path == os.path.normpath(path) and not path.startswith("//")
