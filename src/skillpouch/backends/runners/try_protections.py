"""Tries to escape from inside the confinement, and prints the results as JSON: layer → text.

Runs by path, without the rest of Skillpouch. Its arguments: a file outside that a tool must not
see, the process id of the host, and a number of bytes above the memory limit.
"""

import ctypes
import json
import os
import socket
import sys
from typing import Any


def main() -> None:
    outside, host, memory = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    attempts: dict[str, tuple[str, Any]] = {
        "fs": ("reading a file outside", lambda: open(outside).read()),
        "net": ("making a socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)),
        "signals": ("signalling the host", lambda: os.kill(host, 0)),
        "memory": (f"allocating {memory >> 20} MiB", lambda: bytearray(memory)),
        "syscalls": ("making a user namespace", make_namespace),
        "processes": ("forking without end", fork_many),
    }
    print(json.dumps({layer: try_one(*attempt) for layer, attempt in attempts.items()}))


def try_one(what: str, attempt: Any) -> str:
    try:
        attempt()
    except (OSError, MemoryError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        return f"{what}: {reason.lower()}"
    return f"{what}: SUCCEEDED"


def make_namespace() -> None:
    new_user = 0x10000000
    if ctypes.CDLL(None, use_errno=True).unshare(new_user) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def fork_many() -> None:
    read, write = os.pipe()
    children = []
    try:
        for _ in range(256):
            child = os.fork()
            if child == 0:
                os.close(write)
                os.read(read, 1)  # wait until the parent is done
                os._exit(0)
            children.append(child)
    finally:
        os.close(write)
        for child in children:
            os.waitpid(child, 0)


if __name__ == "__main__":
    main()
