"""Writes out what C code has printed: `exit` would, and a child leaves without it."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _c_half_of_ctypes() -> Any:
    try:
        import _ctypes  # `import ctypes` would load struct and more
    except ImportError:
        return None  # a Python that was built without it
    sys.modules.pop("_ctypes")  # a script finds only what it imports itself
    return _ctypes


_C = _c_half_of_ctypes()
_FFLUSH = _C.dlsym(_C.dlopen(None, 0), "fflush") if _C else 0


def flush_c_output() -> None:
    if _FFLUSH:
        _C.call_function(_FFLUSH, (None,))
