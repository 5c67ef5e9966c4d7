"""Writes out what C code has printed: `exit` would, and a child leaves without it."""

from __future__ import annotations

import sys

try:
    import _ctypes  # the C half alone: `import ctypes` would load struct and more
except ImportError:
    _ctypes = None  # type: ignore[assignment]  # a Python that was built without it


def _find_fflush() -> int:
    if _ctypes is None:
        return 0
    found: int = _ctypes.dlsym(_ctypes.dlopen(None, 0), "fflush")
    sys.modules.pop("_ctypes", None)  # a script finds only what it imports itself
    return found


_FFLUSH = _find_fflush()


def flush_c_output() -> None:
    if _FFLUSH:
        _ctypes.call_function(_FFLUSH, (None,))
