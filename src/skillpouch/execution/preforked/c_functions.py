"""Calls functions of the C library without `import ctypes`, to save memory in every child."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def _c_half_of_ctypes() -> Any:
    try:
        import _ctypes
    except ImportError:
        return None  # this Python was built without it
    sys.modules.pop("_ctypes")  # a script must find only modules that it imports itself
    return _ctypes


_C = _c_half_of_ctypes()


def c_function(name: str) -> Callable[..., int] | None:
    """Return a C function of numbers and addresses, None without ctypes."""
    if _C is None:
        return None
    address, call, word = _address(name), _C.call_function, _word()

    def function(*numbers: int) -> int:
        return int(call(address, tuple(map(word, numbers))))

    return function


def c_call(name: str, *numbers: int) -> Callable[[], int] | None:
    """Return a function that makes one fixed call; its arguments are converted now, once."""
    if _C is None:
        return None
    address, call, words = _address(name), _C.call_function, tuple(map(_word(), numbers))
    return lambda: call(address, words)


def _address(name: str) -> int:
    # None: the libraries that are already loaded, dlopen(3).
    found: int = _C.dlsym(_C.dlopen(None, 0), name)
    return found


def _word() -> Any:
    """Return a type as wide as an address: ctypes would pass a plain number as a 32-bit int."""
    return type("Word", (_C._SimpleCData,), {"_type_": "P"})


_flush_all = c_call("fflush", 0)


def flush_c_output() -> None:
    if _flush_all:
        _flush_all()
