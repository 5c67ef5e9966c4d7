"""JobMethods: start a call and leave it; the methods of managers and executors."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection

    from skillpouch.jobs.job import Job, JobState, KeptQuestion
    from skillpouch.jobs.job_runner import JobRunner
    from skillpouch.limits import Writes
    from skillpouch.policy.approval import Answer


class JobMethods(ABC):
    """The methods for jobs; each has a twin for asyncio, whose name begins with an `a`."""

    @abstractmethod
    def job_runner(self) -> "JobRunner":
        """Return what starts jobs."""

    def start(  # noqa: PLR0913 - as `call` takes them
        self,
        tool: str,
        arguments: Any = None,
        stdin: str | bytes | None = None,
        *,
        timeout: float | None = None,
        writes: "Writes | None" = None,
        retries: int = 0,
        owner: str = "",
        key: str = "",
    ) -> "Job":
        """Start a call and return at once: it goes on when this process ends.

        The job is on the disk before its id is given away. It runs at most once; only a tool that
        is declared to only read is tried again, `retries` times, if the process that ran it died.
        Tools that exist in this process only, such as functions, run here and end with it.
        With a `key`, the same call that is started again, also by another process, is one job.
        Raises what `call` raises for a wrong caller, and JobQueueFullError.
        """
        from skillpouch.runtime.loop_thread import run_blocking

        return run_blocking(
            self.astart(
                tool,
                arguments,
                stdin,
                timeout=timeout,
                writes=writes,
                retries=retries,
                owner=owner,
                key=key,
            )
        )

    async def astart(  # noqa: PLR0913 - as `call` takes them
        self,
        tool: str,
        arguments: Any = None,
        stdin: str | bytes | None = None,
        *,
        timeout: float | None = None,
        writes: "Writes | None" = None,
        retries: int = 0,
        owner: str = "",
        key: str = "",
    ) -> "Job":
        """Do what `start` does, without blocking the event loop."""
        return await self.job_runner().start(
            tool,
            arguments,
            stdin,
            timeout=timeout,
            writes=writes,
            retries=retries,
            owner=owner,
            key=key,
        )

    def job(self, job_id: str) -> "Job":
        """Return a job of this user by its id; raise NoSuchJobError if there is none."""
        from skillpouch.jobs.job_runner import user_jobs

        return user_jobs().job(job_id)

    async def ajob(self, job_id: str) -> "Job":
        """Do what `job` does, without blocking the event loop."""
        from asyncio import to_thread

        return await to_thread(self.job, job_id)

    def jobs(
        self,
        *,
        state: "JobState | Collection[JobState] | None" = None,
        session: str | None = None,
        owner: str | None = None,
        limit: int = 100,
    ) -> "list[Job]":
        """Return jobs of this user, the newest first."""
        from skillpouch.jobs.job_runner import user_jobs

        return user_jobs().jobs(state=state, session=session, owner=owner, limit=limit)

    async def ajobs(
        self,
        *,
        state: "JobState | Collection[JobState] | None" = None,
        session: str | None = None,
        owner: str | None = None,
        limit: int = 100,
    ) -> "list[Job]":
        """Do what `jobs` does, without blocking the event loop."""
        from asyncio import to_thread

        return await to_thread(self.jobs, state=state, session=session, owner=owner, limit=limit)

    def approvals(self, *, owner: str | None = None) -> "list[KeptQuestion]":
        """Return the questions of this user's jobs that wait for an answer, the oldest first.

        With an `owner`, only those of its jobs.
        """
        from skillpouch.jobs.job_runner import user_jobs
        from skillpouch.jobs.questions import open_questions

        return open_questions(user_jobs(), owner)

    async def aapprovals(self, *, owner: str | None = None) -> "list[KeptQuestion]":
        """Do what `approvals` does, without blocking the event loop."""
        from asyncio import to_thread

        return await to_thread(self.approvals, owner=owner)

    def answer(self, question_id: str, answer: "bool | Answer", *, by: str = "") -> "KeptQuestion":
        """Answer a question, and let its job go on; the first answer counts.

        `by` begins with "user", "caller" or "webhook"; without it, it is the user who runs this
        process. Raises NoSuchQuestionError, MayNotAnswerError, AlreadyAnsweredError,
        QuestionExpiredError.
        """
        from skillpouch.runtime.loop_thread import run_blocking

        return run_blocking(self.aanswer(question_id, answer, by=by))

    async def aanswer(
        self, question_id: str, answer: "bool | Answer", *, by: str = ""
    ) -> "KeptQuestion":
        """Do what `answer` does, without blocking the event loop."""
        from skillpouch.jobs.job_runner import user_jobs
        from skillpouch.jobs.questions import answer_and_go_on, this_user
        from skillpouch.policy.approval import Answer

        given = answer if isinstance(answer, Answer) else Answer(yes=answer)
        return await answer_and_go_on(user_jobs(), question_id, given, by=by or this_user())


async def end_jobs_of(session: str) -> None:
    """Cancel the jobs of a session that is destroyed; costs nothing where there are no jobs."""
    from asyncio import to_thread

    from skillpouch.jobs.job_runner import user_jobs

    store = user_jobs()
    states: tuple[JobState, ...] = ("queued", "waiting_for_approval", "running")
    for job in await to_thread(store.jobs, session=session, state=states, limit=100_000):
        await job.acancel()
