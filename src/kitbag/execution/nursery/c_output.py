"""Writes out what C code has printed: `exit` would, and a child leaves without it."""

from __future__ import annotations

from kitbag.execution.nursery.c_functions import c_function

_fflush = c_function("fflush")


def flush_c_output() -> None:
    if _fflush:
        _fflush(0)
