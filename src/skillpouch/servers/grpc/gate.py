"""Who may come in: whoever says a token, in the metadata of every request."""

from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from skillpouch.servers.grpc.errors import TokenNeededError
from skillpouch.servers.grpc.statuses import abort
from skillpouch.servers.tokens import Tokens

# Whether the server is there is no secret, and those who ask it carry no tokens.
_OPEN = "/grpc.health.v1.Health/"

Continuation = Callable[[grpc.HandlerCallDetails], Awaitable[Any]]


class TokenGate(grpc.aio.ServerInterceptor):
    """Lets requests in that carry `authorization: Bearer TOKEN`."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> Any:
        """Return who answers a request, or somebody who refuses it."""
        if handler_call_details.method.startswith(_OPEN):
            return await continuation(handler_call_details)
        said = [
            value if isinstance(value, str) else value.decode("latin-1")
            for key, value in handler_call_details.invocation_metadata or ()
            if key == "authorization"
        ]
        if len(said) == 1 and self._tokens.accepts(said[0]):
            return await continuation(handler_call_details)
        return grpc.unary_unary_rpc_method_handler(_refuse)


async def _refuse(_request: Any, context: "grpc.aio.ServicerContext[Any, Any]") -> None:
    await abort(context, TokenNeededError())
