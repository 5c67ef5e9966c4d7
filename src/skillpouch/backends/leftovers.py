"""Removes what backends keep for a skill or a workspace from one call to the next."""

from pathlib import Path

from skillpouch.backends.exchange import forget_exchange
from skillpouch.backends.inline_files import forget_inline


def forget_skill(home: str) -> None:
    """Remove what is kept for the skill in a folder, which nobody calls any more."""
    forget_exchange(home=home)
    forget_inline(home)


def forget_workspace(workspace: Path) -> None:
    """Remove what is kept for the calls in a workspace that is no longer used."""
    forget_exchange(workspace=workspace)
