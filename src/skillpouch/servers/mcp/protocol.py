"""The low-level server with everything that is answered, and nothing of ours in its errors."""

import logging
from typing import Any

from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    ListToolsResult,
    NotificationParams,
    PaginatedRequestParams,
)
from pydantic import ValidationError

import skillpouch
from skillpouch.servers.mcp.announcing import Announcer
from skillpouch.servers.mcp.calls import Calls
from skillpouch.servers.mcp.definitions import Definitions
from skillpouch.servers.mcp.eras import Context
from skillpouch.servers.mcp.links import Scheme
from skillpouch.servers.mcp.offer import Offer
from skillpouch.servers.mcp.paging import page_of
from skillpouch.servers.mcp.prompts import Prompts
from skillpouch.servers.mcp.resources import Resources
from skillpouch.servers.mcp.skills import EXTENSION, GetSkillParams, Skills

_log = logging.getLogger(__name__)

_INSTRUCTIONS = (
    "Tools of agent skills, each run confined and recorded. The instructions of a skill are its "
    "prompt and the resource skill://NAME/SKILL.md: read them before using its tools."
)


class Answers:
    """Who answers what."""

    def __init__(
        self,
        offer: Offer,
        calls: Calls,
        resources: Resources,
        announcer: Announcer,
        page_size: int,
        scheme: Scheme,
    ) -> None:
        self.offer = offer
        self.calls = calls
        self.resources = resources
        self.announcer = announcer
        self.prompts = Prompts(offer, page_size, scheme)
        self.skills = Skills(offer, page_size)
        self._definitions = Definitions()
        self._page_size = page_size

    async def list_tools(
        self, context: Context, params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        """Answer `tools/list`."""
        defined = self._definitions.of(self.offer.now, context)
        page, following = page_of(defined, params.cursor if params else None, self._page_size)
        return ListToolsResult(tools=page, next_cursor=following)

    def input_schema(self, name: str) -> dict[str, Any] | None:
        """Return the schema of a tool that is offered."""
        tool = self.offer.find(name)
        return dict(tool.input_schema) if tool else None


class ProtocolServer(Server[Any]):
    """The server of one offer, for both protocols and every transport."""

    def __init__(self, answers: Answers) -> None:
        super().__init__(
            "skillpouch",
            version=skillpouch.__version__,
            title="Skillpouch",
            instructions=_INSTRUCTIONS,
            get_tool_input_schema=answers.input_schema,
            on_list_tools=answers.list_tools,
            on_call_tool=answers.calls.answer,
            on_list_prompts=answers.prompts.list,
            on_get_prompt=answers.prompts.get,
            on_list_resources=answers.resources.list,
            on_list_resource_templates=answers.resources.templates,
            on_read_resource=answers.resources.read,
            on_subscriptions_listen=answers.announcer.listen,
        )
        self.extensions = {EXTENSION: {}}
        self.add_request_handler("skills/list", PaginatedRequestParams, answers.skills.list)
        self.add_request_handler("skills/get", GetSkillParams, answers.skills.get)
        self.add_notification_handler(
            "notifications/initialized", NotificationParams, answers.announcer.greeted
        )
        self.middleware.append(_keep_to_ourselves)

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """Say that lists may change: connections with a handshake are told when they do."""
        changing = NotificationOptions(
            tools_changed=True, prompts_changed=True, resources_changed=True
        )
        return super().create_initialization_options(
            notification_options or changing, experimental_capabilities, extensions
        )


async def _keep_to_ourselves(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Log what went wrong here and say only that it did: no path and no line of ours."""
    try:
        return await call_next(ctx)
    except (MCPError, ValidationError):
        raise
    except Exception:  # noqa: BLE001 - the outermost line of a server
        _log.exception("%s could not be answered", ctx.method)
        raise MCPError(INTERNAL_ERROR, "internal error: the server's log says more") from None
