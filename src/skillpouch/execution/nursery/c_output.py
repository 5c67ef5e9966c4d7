"""Writes out what C code has printed: `exit` would, and a child leaves without it."""

from __future__ import annotations

from skillpouch.execution.nursery.c_functions import c_call

_flush_all = c_call("fflush", 0)


def flush_c_output() -> None:
    if _flush_all:
        _flush_all()
