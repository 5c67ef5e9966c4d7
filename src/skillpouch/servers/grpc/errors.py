"""What a client can get wrong that only this wire knows, and the end it may have asked for."""

from skillpouch.errors import SkillpouchError


class MessageError(SkillpouchError):
    """A field that holds something it cannot."""

    code = "invalid_message"

    def __init__(self, field: str, reason: str) -> None:
        self.field = field
        super().__init__(f"{field}: {reason}", hint=f"write {field} as skillpouch.proto says")


class CallIdInUseError(SkillpouchError):
    code = "call_id_in_use"

    def __init__(self, call_id: str) -> None:
        self.call_id = call_id
        super().__init__(
            f"a call named {call_id!r:.80} is running", hint="give each call a name of its own"
        )


class CallCancelledError(SkillpouchError):
    """Somebody asked for the end of a call, and it has ended."""

    code = "cancelled"

    def __init__(self) -> None:
        super().__init__("the call was cancelled")


class TokenNeededError(SkillpouchError):
    code = "unauthenticated"

    def __init__(self) -> None:
        super().__init__(
            "a token is needed", hint="say it in the metadata: authorization: Bearer TOKEN"
        )
