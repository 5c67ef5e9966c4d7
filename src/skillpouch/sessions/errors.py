"""The errors of sessions, and of the file that keeps them."""

from pathlib import Path

from skillpouch.errors import SkillpouchError


class SessionError(SkillpouchError):
    """The base class of the errors of sessions."""

    code = "session"


class UnknownSessionError(SessionError):
    code = "unknown_session"

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(
            f"no session {session_id!r:.80}",
            hint="`await create_session()` makes one; a destroyed session cannot be restored",
        )


class SessionExistsError(SessionError):
    code = "session_exists"

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(
            f"session {session_id!r} already exists",
            hint="go on with it, or destroy it first",
        )


class SessionNameError(SessionError):
    """A name that no session can have."""

    code = "session_name"

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(
            f"{session_id!r:.80} is not a name for a session",
            hint="use 1-128 letters, digits, '.', '_' and '-', a letter or digit first",
        )


class SessionEndedError(SessionError):
    """A call was running when its session was destroyed."""

    code = "session_ended"

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(f"session {session_id!r} was destroyed while the call was running")


class SessionPolicyError(SessionError):
    """A session has its own policy, which was not passed to this process."""

    code = "session_policy"

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(
            f"the policy of session {session_id!r} is not known to this process",
            hint="set it again: `await set_policy(session_id, policy)`, "
            "or pass SessionManager a function: `policy=lambda session_id: …`",
        )


class SessionStoreError(SessionError):
    """The file that sessions are kept in cannot be used."""

    code = "session_store"

    def __init__(self, path: Path | None, reason: str, *, hint: str = "") -> None:
        self.path = path
        where = path or "the file of sessions"
        super().__init__(f"{where} cannot be used: {reason}", hint=hint)


class SessionFilesError(SessionError):
    """A folder of a session cannot be made or removed."""

    code = "session_files"

    def __init__(self, path: Path | None, reason: str, *, hint: str = "") -> None:
        self.path = path
        super().__init__(f"{path or 'a workspace'}: {reason}", hint=hint)
