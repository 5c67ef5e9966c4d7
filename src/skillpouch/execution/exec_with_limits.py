"""A small program that sets limits for itself and then executes another program.

The alternative is `preexec_fn`, which runs after a fork of the host: there, fork handlers of the
host's libraries may write into the program's output.
"""

import contextlib
import os
import resource
import sys


def main(names: str, limits: str, *program: str) -> None:
    """Execute `program` with these limits, `number=value`, and only the variables in `names`."""
    for pair in filter(None, limits.split(",")):
        number, most = map(int, pair.split("="))
        hard = resource.getrlimit(number)[1]
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        # A system may define a limit and still refuse to set it.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(number, (least, least))
    given = names.split("=")
    env = {name: value for name, value in os.environ.items() if name in given}
    os.execve(program[0], program, env)  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main(*sys.argv[1:])
