"""Finds credentials written into a file, and never repeats them in what it says."""

from pathlib import PurePosixPath

from skillpouch.checks.secret_addresses import find_in_addresses
from skillpouch.checks.secret_assignments import find_assigned
from skillpouch.checks.secret_shapes import find_shaped
from skillpouch.checks.secret_values import Secret
from skillpouch.problems import Problem

_LOCK_FILES = frozenset(
    ("package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "go.sum", "bun.lockb")
)


def find_secrets(path: str, text: str) -> list[Problem]:
    """Give one problem per credential; the message shows four characters of it at most."""
    name = PurePosixPath(path).name.lower()
    if name in _LOCK_FILES or name.endswith(".lock"):
        return []
    found = [*find_shaped(text), *find_in_addresses(text), *find_assigned(name, text)]
    problems: list[Problem] = []
    line, counted, end = 1, 0, 0
    for secret in sorted(found, key=lambda secret: secret.start):
        # The same stretch can be a provider's token and the value of an assignment.
        if secret.start >= end:
            line += text.count("\n", counted, secret.start)
            counted, end = secret.start, secret.end
            problems.append(_problem(path, line, secret))
    return problems


def _problem(path: str, line: int, secret: Secret) -> Problem:
    shown = f" ({secret.shown}…)" if secret.shown else ""
    return Problem(
        path=path,
        code="hardcoded-secret",
        severity="warning",
        message=f"hard-coded {secret.kind}{shown}: read it from an environment variable, "
        "and revoke it if it is real",
        line=line,
    )
