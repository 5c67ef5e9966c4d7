"""The rules of the controls: what holds for every call of an executor, whoever makes it."""

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

from skillpouch.journal.journal import Journal, user_journal
from skillpouch.journal.recording import Recorder
from skillpouch.journal.telemetry import Telemetry
from skillpouch.policy.approval import Approver
from skillpouch.policy.authorize import Authorizer
from skillpouch.policy.loading import load_policy
from skillpouch.policy.policy import Policy
from skillpouch.secrets.sources import Secrets, environment_secrets
from skillpouch.trust.grants import Grants


class Controls:
    """Made from what a caller says; what was not said is found when the first call comes.

    Without a `policy` the user's own is read, tightened by the `skillpouch.toml` in `project`.
    `journal=False` records nothing, unless the policy requires it. `roots` are where the skills
    were looked for, when somebody named them: commands that errors tell need them, too.
    """

    def __init__(  # noqa: PLR0913 - each is said by name
        self,
        *,
        policy: Policy | None = None,
        approver: Approver | None = None,
        grants: Grants | None = None,
        secrets: Secrets | None = None,
        journal: Journal | bool = True,
        telemetry: Telemetry | None = None,
        session: str | None = None,
        project: Path | Callable[[], Path] | None = None,
        roots: Sequence[str] = (),
    ) -> None:
        self._policy = policy
        self._approver = approver
        self._grants = grants
        self._secrets = secrets or environment_secrets
        self._journal = journal
        self._telemetry = telemetry or Telemetry()
        self._session = session
        self._project = project
        self.roots = tuple(roots)

    @cached_property
    def policy(self) -> Policy:
        if self._policy is not None:
            return self._policy
        project = self._project() if callable(self._project) else self._project
        return load_policy(project)

    @cached_property
    def authorizer(self) -> Authorizer:
        return Authorizer(
            policy=self.policy,
            approver=self._approver,
            grants=self._grants,
            secrets=self._secrets,
            session=self._session,
            roots=self.roots,
        )

    @cached_property
    def recorder(self) -> Recorder:
        return Recorder(self._record_in(), self._telemetry, self._session)

    def _record_in(self) -> Journal | None:
        required = self.policy.require_journal
        if isinstance(self._journal, Journal):
            return self._journal.as_required() if required else self._journal
        return user_journal(required=required) if self._journal or required else None
