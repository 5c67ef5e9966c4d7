"""A stranger's process that swaps two names all the time, as a tool in the workspace could."""

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Each race is tried so often. Raise it to search longer: SKILLPOUCH_RACE_ROUNDS=5000 pytest …
ROUNDS = int(os.environ.get("SKILLPOUCH_RACE_ROUNDS", "60"))

# renameat2(2) with RENAME_EXCHANGE: at no moment is either of the two names missing.
_SWAP = """
import ctypes, sys, time
one, other, pause = sys.argv[1].encode(), sys.argv[2].encode(), float(sys.argv[3])
swap = ctypes.CDLL(None, use_errno=True).renameat2
print("ready", flush=True)
while True:
    if swap(-100, one, -100, other, 2):
        sys.exit(ctypes.get_errno())
    time.sleep(pause)
"""


@contextmanager
def swapped(one: Path, other: Path, *, pause: float = 0.003) -> Iterator[None]:
    """Swap what is under two names, all the time, until the block ends; then it is as before.

    On a busy machine every attempt may meet a link. Whoever wants to see that something works at
    all tries once more after the block.
    """
    before = os.lstat(one).st_ino
    words = [sys.executable, "-I", "-c", _SWAP, str(one), str(other), str(pause)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        try:
            yield
            assert process.poll() is None, "the swapping ended early"
        finally:
            process.kill()
    if os.lstat(one).st_ino != before:
        swap = ctypes.CDLL(None).renameat2
        assert swap(-100, os.fsencode(one), -100, os.fsencode(other), 2) == 0
