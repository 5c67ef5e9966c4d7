"""Places for calls: so many for everybody, and of them so many for each session."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from skillpouch.servers.admission import Admission
from skillpouch.servers.grpc.settings import GrpcLimits


class Places:
    """Admits calls. A session that has none running or waiting is forgotten."""

    def __init__(self, admission: Admission, limits: GrpcLimits) -> None:
        self._admission = admission
        self._limits = limits
        self._sessions: dict[str, Admission] = {}

    @asynccontextmanager
    async def taken(self, session: str) -> AsyncIterator[None]:
        """Wait for a place of the session, then for one of the server, and hold both.

        Raises what `Admission.admitted` raises. Calls without a session share one allowance.
        """
        own = self._sessions.get(session) or self._sessions.setdefault(session, self._new())
        try:
            async with own.admitted(), self._admission.admitted():
                yield
        finally:
            if not own.running and not own.waiting and self._sessions.get(session) is own:
                del self._sessions[session]

    def _new(self) -> Admission:
        return Admission(
            most_running=self._limits.most_running_per_session,
            most_waiting=self._limits.most_waiting_per_session,
        )
