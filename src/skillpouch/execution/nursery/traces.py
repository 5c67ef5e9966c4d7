"""What importing leaves behind in a process, besides a module.

An import that every call makes may leave what it likes: each call would have it anyway. One that
only some calls make must leave nothing, or the other calls would see it.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import atexit
import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def traces() -> list[Any]:
    """Return what can be compared before and after."""
    logging = sys.modules.get("logging")
    return [
        atexit._ncallbacks(),
        dict(os.environ),
        list(sys.path),
        list(sys.meta_path),
        sys.excepthook,
        sys.getrecursionlimit(),
        [_signal.getsignal(number) for number in _signal.valid_signals()],
        (logging.root.level, list(logging.root.handlers)) if logging else None,
    ]


def keeps_random_numbers() -> bool:
    """Tell whether a module has a generator of its own: all calls would get the same numbers.

    The one that `random` keeps for everybody is seeded anew in every child, by itself.
    """
    random = sys.modules.get("random")
    if random is None:
        return False
    return any(
        type(thing) is random.Random and thing is not random._inst
        for thing in gc.get_referrers(random.Random)
    )
