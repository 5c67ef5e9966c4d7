"""The policy that holds here: the user's, tightened by the project's."""

from pathlib import Path

from skillpouch.policy.policy import Policy
from skillpouch.policy.project_file import read_project
from skillpouch.policy.user_file import read_user_policy


def load_policy(project: Path | None = None) -> Policy:
    """Read the user's policy and tighten it by the `skillpouch.toml` of a project's folder.

    Raises:
        PolicyFileError: a file that is there cannot be used; a policy is never half of itself.
    """
    policy = read_user_policy()
    return policy if project is None else policy.tightened_by(read_project(project))
