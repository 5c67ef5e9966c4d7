"""Why a script cannot be served by a nursery: numbers on the wire, words for people."""

from __future__ import annotations

SHADOWED, FAILED, PRINTED, FILES_OPEN, MOVED, UNREADABLE = 1, 2, 3, 4, 5, 6
VARIABLES, RANDOM, CRASHED = 7, 8, 9

REASONS = {
    SHADOWED: "a file of the skill has the name of a module that is already loaded",
    FAILED: "its imports fail before the call, as those that start threads do",
    PRINTED: "its imports print",
    FILES_OPEN: "its imports leave files open",
    MOVED: "its imports change the current folder",
    UNREADABLE: "it cannot be read or compiled",
    VARIABLES: "its imports read all variables, and calls have their own",
    RANDOM: "its imports keep random numbers of their own",
    CRASHED: "its imports end the interpreter",
}
