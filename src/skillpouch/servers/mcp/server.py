"""McpServer: serves a manager's tools, skills and files to one client or to many."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from skillpouch.calls import owner_here
from skillpouch.discovery.watching.listening import Changes
from skillpouch.jobs.job_tools import job_tools
from skillpouch.manager import SkillManager
from skillpouch.servers.admission import Admission
from skillpouch.servers.lifecycle import Stop, drained
from skillpouch.servers.mcp.calls import ToolCallHandler, asks_here
from skillpouch.servers.mcp.http import HttpServer, gate_of
from skillpouch.servers.mcp.protocol import Answers, ProtocolServer
from skillpouch.servers.mcp.resources import Resources
from skillpouch.servers.mcp.results import Links, Scheme
from skillpouch.servers.mcp.settings import HttpSettings, LongCalls, McpLimits, is_of_client
from skillpouch.servers.mcp.snapshot import Announcer, ExtraTools, ServedTools
from skillpouch.servers.mcp.stdio import StdioLine
from skillpouch.servers.metrics import Metrics


class McpServer:
    """Serves the tools of a manager, and `tools` beside them; or only those.

    Every call goes through the manager's executor: its policy, its limits, its journal. Skills
    are watched while it serves; without `watch`, call `announce` after they have changed.

    `long_calls` says what becomes of calls that take long, or that the policy asks about.
    """

    def __init__(
        self,
        manager: SkillManager,
        *,
        tools: ExtraTools = (),
        only_tools: bool = False,
        watch: bool = True,
        limits: McpLimits | None = None,
        long_calls: LongCalls | None = None,
    ) -> None:
        self._manager = manager
        self._watch = watch
        self._limits = limits or McpLimits()
        self._long_calls = long_calls or LongCalls()
        for_jobs = job_tools(
            manager.executor,
            owner_here.get,
            most_seconds=self._long_calls.soft_limit_seconds,
            waits_for_answers=lambda: not asks_here.get(),
        )
        self._offer = ServedTools(manager, extra=tools, only_extra=only_tools, for_jobs=for_jobs)
        if self._long_calls.list_tools:
            self._offer.offer_jobs()
        self._announcer = Announcer()
        self.admission = Admission(
            most_running=self._limits.most_running, most_waiting=self._limits.most_waiting
        )
        self.metrics = Metrics(self.admission)

    @property
    def counts(self) -> tuple[int, int]:
        """How many tools and how many skills are offered."""
        return len(self._offer.now.tools), len(self._offer.now.skills)

    async def serve_stdio(
        self, *, stop: Stop | None = None, ready: Callable[[], None] = lambda: None
    ) -> None:
        """Serve the client at standard input and output, until it leaves or `stop` is asked."""
        protocol = self._protocol("file")
        line = StdioLine(self._limits.most_message_bytes)

        async def until_answered() -> None:
            await self._until(stop or Stop())
            await line.answered()

        async with self._running(), line.streams() as streams:
            serving = asyncio.create_task(
                protocol.run(*streams, protocol.create_initialization_options())
            )
            ready()
            stopping = asyncio.create_task(until_answered())
            await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
            for task in (serving, stopping):
                task.cancel()
            await asyncio.gather(serving, stopping, return_exceptions=True)

    async def serve_http(
        self,
        settings: HttpSettings | None = None,
        *,
        stop: Stop | None = None,
        ready: Callable[[str], None] = lambda _url: None,
    ) -> None:
        """Listen for clients until `stop` is asked; `ready` is told the URL."""
        settings = settings or HttpSettings()
        gate = gate_of(self._protocol("workspace"), settings, self._limits, self.metrics)
        server = HttpServer(gate, settings)
        asked = stop or Stop()
        async with self._running():
            await server.serve(lambda: ready(server.url), lambda: self._until(asked))

    async def announce(self) -> None:
        """Read the skills anew, and tell clients that the lists have changed."""
        await self._offer.refresh()
        await self._announcer.announce()

    def _protocol(self, scheme: Scheme) -> ProtocolServer:
        links = Links(self._manager.executor.workspace, scheme)
        size = self._limits.page_size
        calls = ToolCallHandler(
            self._offer, self.admission, links, self.metrics, self._long_calls, self.announce
        )
        resources = Resources(self._offer, links, size)
        answers = Answers(self._offer, calls, resources, self._announcer, size, scheme)
        return ProtocolServer(answers)

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[None]:
        """Serve what is there and, if it is watched, what it becomes."""
        if await asyncio.to_thread(self._has_jobs):
            self._offer.offer_jobs()
        if not self._watch:
            await self._offer.refresh()
            yield
            return
        async with self._manager.watch(self._changed):
            await self._offer.refresh()
            yield

    def _has_jobs(self) -> bool:
        """Tell whether calls go on that clients of an earlier server left running."""
        alive = self._manager.jobs(state=("queued", "waiting_for_approval", "running"))
        return any(is_of_client(job.owner) for job in alive)

    async def _changed(self, changes: Changes) -> None:
        if changes:
            await self.announce()

    async def _until(self, stop: Stop) -> None:
        """Wait until asked to stop; then let calls finish, unless asked again."""
        await drained(stop, self.admission, self._limits.drain_seconds)
        self._announcer.close()
