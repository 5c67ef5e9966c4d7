"""The protocol of a prefork server and its sandbox: descriptors, and numbers for reasons."""

from __future__ import annotations

# Descriptors, as `_arrange` in zygote/serve.py sets them.
JOBS = 3  # receives calls from the host
CONTROL = 4  # the socket to its sandbox
PRINTED = 5  # the read end of its own standard output and error
FIRST_FREE = 6

# Numbers, because the sandbox passes on nothing else from a prefork server, which is not trusted.
SHADOWED, FAILED, HAS_PRINTED, FILES_OPEN, MOVED, UNREADABLE = 1, 2, 3, 4, 5, 6
VARIABLES, RANDOM, CRASHED = 7, 8, 9

REASONS = {
    SHADOWED: "a file of the skill has the name of a module that is already loaded",
    FAILED: "its imports fail before the call, as those that start threads do",
    HAS_PRINTED: "its imports print",
    FILES_OPEN: "its imports leave files open",
    MOVED: "its imports change the current folder",
    UNREADABLE: "it cannot be read or compiled",
    VARIABLES: "its imports read all variables, and calls have their own",
    RANDOM: "its imports make random number generators of their own",
    CRASHED: "its imports end the interpreter",
}
