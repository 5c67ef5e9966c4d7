"""What went wrong while installing, in words: the installer's last lines and the next step."""

import re

from skillpouch.execution.command import Ended
from skillpouch.provision.packages.errors import InstallError
from skillpouch.provision.packages.recipe import Recipe
from skillpouch.text import clean

_LAST_LINES = 12
_LONGEST_LINE = 300
_ADDRESS_SECRET = re.compile(r"(?<=://)[^/@\s]+@")
# What the installers say → what it means here.
_MEANINGS = (
    (
        r"nothing is built|included as a URL dependency|EALLOW|allow-(?:git|remote|file|directory)",
        "a package asks for another by address: only packages by name are installed",
        "ask whoever publishes it, or use another",
    ),
    (
        r"do not match the hashes|hash mismatch|EINTEGRITY",
        "a package is not the one that was pinned",
        "somebody changed it, or the pin is wrong: compare the checksums before anything else",
    ),
    (
        r"no (?:usable )?wheels|No matching distribution|No solution found",
        "there is no wheel that fits, or no such package",
        "only ready-made wheels are installed, never source packages: {command}",
    ),
    (
        r"\bE404\b|\bETARGET\b|notarget",
        "the registry has no such package or version",
        "see what there is: {command}",
    ),
    (
        r"EUSAGE.*lock|in sync",
        "package.json and package-lock.json do not agree",
        "run `npm install` in the skill to renew the lock file",
    ),
    (
        r"ensurepip is not|No module named '?(?:venv|ensurepip|pip)",
        "this Python cannot make environments",
        "install uv, or: apt install python3-venv",
    ),
    (
        r"Connection|resolve|ENOTFOUND|ECONN|timed out|certificate|dns error|proxy",
        "the packages could not be fetched",
        "check the network, and your settings for the installer: {command}",
    ),
)


def install_error(skill: str, recipe: Recipe, ended: Ended) -> InstallError:
    """Return the error for an installer that failed."""
    output = last_lines(f"{ended.stdout.text}\n{ended.stderr.text}")
    reason, hint = _ending(ended), "the same outside Skillpouch: {command}"
    for pattern, meaning, step in _MEANINGS:
        if re.search(pattern, output, re.IGNORECASE | re.DOTALL):
            reason, hint = meaning, step
            break
    command = f"`{recipe.try_yourself()}`"
    return InstallError(
        skill, recipe.names, reason, output=output, hint=hint.format(command=command)
    )


def _ending(ended: Ended) -> str:
    if ended.exit_code is not None:
        return f"the installer failed with exit code {ended.exit_code}"
    return f"the installer was ended by {ended.code or f'signal {ended.signal}'}"


def last_lines(text: str) -> str:
    """Return the end of what a program said, without escapes and without secrets in addresses."""
    lines = [line.rstrip()[:_LONGEST_LINE] for line in clean(text).splitlines() if line.strip()]
    return _ADDRESS_SECRET.sub("…@", "\n".join(lines[-_LAST_LINES:]))
