"""Telling clients that lists have changed, in the way that the protocol of each one has."""

import asyncio
import weakref
from contextlib import suppress

from mcp.server.connection import Connection
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ToolsListChanged,
)
from mcp_types import NotificationParams
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from skillpouch.servers.mcp.eras import Context

_PATIENCE_SECONDS = 5.0


class Announcer:
    """Knows who listens: streams that were asked for, and connections that shook hands."""

    def __init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self.listen = ListenHandler(self._bus)
        self._connections: weakref.WeakSet[Connection] = weakref.WeakSet()

    async def greeted(self, context: Context, _params: NotificationParams) -> None:
        """Remember a connection for as long as somebody else holds it."""
        connection = context.session._connection  # noqa: SLF001 - nothing public leads there
        if connection.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            self._connections.add(connection)

    async def announce(self) -> None:
        """Tell everybody that tools, prompts and resources may be others now."""
        for event in (ToolsListChanged(), PromptsListChanged(), ResourcesListChanged()):
            await self._bus.publish(event)
        await asyncio.gather(*map(_notify, list(self._connections)))

    def close(self) -> None:
        """End the streams, so that clients know that it is on purpose."""
        self.listen.close()


async def _notify(connection: Connection) -> None:
    # One that does not read must not keep the others from hearing it.
    with suppress(TimeoutError):
        async with asyncio.timeout(_PATIENCE_SECONDS):
            for kind in ("tools", "prompts", "resources"):
                await connection.notify(f"notifications/{kind}/list_changed", None)
