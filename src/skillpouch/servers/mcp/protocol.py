"""The methods of MCP in both protocol versions: tools, prompts, pages."""

import logging
from collections.abc import Mapping
from typing import Any

from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    ListToolsResult,
    NotificationParams,
    PaginatedRequestParams,
    Prompt,
    PromptArgument,
    PromptMessage,
    TextContent,
    ToolAnnotations,
)
from mcp_types import Tool as McpTool
from pydantic import ValidationError

import skillpouch
from skillpouch.errors import SkillpouchError
from skillpouch.servers.faults import said, shorten_error
from skillpouch.servers.mcp.calls import ToolCallHandler
from skillpouch.servers.mcp.resources import (
    EXTENSION,
    GetSkillParams,
    Resources,
    SkillResources,
    root_uri,
)
from skillpouch.servers.mcp.results import Scheme
from skillpouch.servers.mcp.settings import Context, is_modern, page_of
from skillpouch.servers.mcp.snapshot import Announcer, OfferSnapshot, ServedTools
from skillpouch.servers.mcp.tasks import TASKS, TaskParams, UpdateTaskParams, listening
from skillpouch.skills import Skill
from skillpouch.tools import Tool, model_schema

_CHANGING = frozenset(("write", "destructive", "execute"))
ID_KEY = "skillpouch/id"


class Definitions:
    """What `tools/list` shows, made once for each snapshot and protocol."""

    def __init__(self) -> None:
        self._made: dict[bool, tuple[OfferSnapshot, dict[str, McpTool]]] = {}

    def of(self, snapshot: OfferSnapshot, context: Context) -> dict[str, McpTool]:
        """Return the definitions of all tools by name, in order."""
        modern = is_modern(context)
        known = self._made.get(modern)
        if known is None or known[0] is not snapshot:
            made = {name: definition(tool, modern) for name, tool in snapshot.tools.items()}
            known = self._made[modern] = (snapshot, made)
        return known[1]


def definition(tool: Tool, modern: bool) -> McpTool:
    """Return one tool; an older client is not shown an output that is not an object."""
    return McpTool(
        name=tool.name,
        title=tool.id,
        description=_description(tool),
        input_schema=_input_schema(model_schema(tool.input_schema)),
        output_schema=output_schema(tool, modern),
        annotations=_annotations(tool),
        _meta={ID_KEY: tool.id},
    )


def output_schema(tool: Tool, modern: bool) -> dict[str, Any] | None:
    """Return what a client is told of the answer, if its protocol can say it."""
    schema = tool.output_schema
    if not schema:
        return None
    return dict(schema) if modern or schema.get("type") == "object" else None


def _input_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    if not schema.get("properties") and len(schema) <= 1:
        return {"type": "object", "additionalProperties": False}
    return {**schema, "type": "object"}


def _description(tool: Tool) -> str:
    if not tool.missing:
        return tool.description
    return f"{tool.description}\n\nNot ready: {'; '.join(tool.missing)}"


def _annotations(tool: Tool) -> ToolAnnotations:
    effects = frozenset(tool.effects)
    return ToolAnnotations(
        read_only_hint=effects.isdisjoint(_CHANGING),
        destructive_hint="destructive" in effects,
        open_world_hint="network" in effects,
    )


_ARGUMENT = PromptArgument(
    name="arguments", description="What to use the skill for, or on", required=False
)


class Prompts:
    """Answers `prompts/list` and `prompts/get`.

    A client that is elsewhere has no use for where a folder is here: it is told the address
    under which it can read the skill's files.
    """

    def __init__(self, offer: ServedTools, page_size: int, scheme: Scheme) -> None:
        self._offer = offer
        self._page_size = page_size
        self._is_elsewhere = scheme == "workspace"

    async def list(
        self, _context: Context, params: PaginatedRequestParams | None
    ) -> ListPromptsResult:
        cursor = params.cursor if params else None
        page, following = page_of(self._skills(), cursor, self._page_size)
        return ListPromptsResult(prompts=[_prompt(skill) for skill in page], next_cursor=following)

    async def get(self, _context: Context, params: GetPromptRequestParams) -> GetPromptResult:
        skill = self._skills().get(params.name)
        if skill is None:
            raise MCPError(INVALID_PARAMS, f"no prompt named {params.name!r}")
        words = (params.arguments or {}).get("arguments", "")
        try:
            home = root_uri(skill) if self._is_elsewhere else ""
            text = await self._offer.activate(skill.name, words, home)
        except SkillpouchError as error:
            words = shorten_error(said(error), error) if self._is_elsewhere else said(error)
            raise MCPError(INVALID_PARAMS, words, {"code": error.code}) from None
        message = PromptMessage(role="user", content=TextContent(text=text))
        return GetPromptResult(description=skill.description, messages=[message])

    def _skills(self) -> dict[str, Skill]:
        skills = self._offer.now.skills
        return {name: skill for name, skill in skills.items() if _is_for_people(skill)}


def _is_for_people(skill: Skill) -> bool:
    return skill.metadata.frontmatter.get("user-invocable") is not False


def _prompt(skill: Skill) -> Prompt:
    return Prompt(name=skill.name, description=skill.description, arguments=[_ARGUMENT])


_log = logging.getLogger(__name__)

_INSTRUCTIONS = (
    "Tools of agent skills, each run confined and recorded. The instructions of a skill are its "
    "prompt and the resource skill://NAME/SKILL.md: read them before using its tools."
)


class Answers:
    """Who answers what."""

    def __init__(
        self,
        offer: ServedTools,
        calls: ToolCallHandler,
        resources: Resources,
        announcer: Announcer,
        page_size: int,
        scheme: Scheme,
    ) -> None:
        self.offer = offer
        self.calls = calls
        self.tasks = calls.tasks
        self.resources = resources
        self.announcer = announcer
        self.prompts = Prompts(offer, page_size, scheme)
        self.skills = SkillResources(offer, page_size)
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
            # The library sends an answer that is a task as it is, and knows no type for it.
            on_call_tool=answers.calls.answer,  # type: ignore[arg-type]
            on_list_prompts=answers.prompts.list,
            on_get_prompt=answers.prompts.get,
            on_list_resources=answers.resources.list,
            on_list_resource_templates=answers.resources.templates,
            on_read_resource=answers.resources.read,
            on_subscriptions_listen=listening(answers.tasks, answers.announcer.listen),
        )
        self.extensions = {EXTENSION: {}, TASKS: {}}
        self.add_request_handler("tasks/get", TaskParams, answers.tasks.get)
        self.add_request_handler("tasks/update", UpdateTaskParams, answers.tasks.update)
        self.add_request_handler("tasks/cancel", TaskParams, answers.tasks.cancel)
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
            notification_options or changing,
            experimental_capabilities,
            # An answer that is a task cannot be sent in a protocol with a handshake.
            {EXTENSION: {}} if extensions is None else extensions,
        )


async def _keep_to_ourselves(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Log an internal error; the client is told only that there was one, without paths or code."""
    try:
        return await call_next(ctx)
    except (MCPError, ValidationError):
        raise
    except Exception:  # noqa: BLE001 - the outermost line of a server
        _log.exception("%s could not be answered", ctx.method)
        raise MCPError(INTERNAL_ERROR, "internal error: the server's log says more") from None
