"""JobStore: jobs and their questions as rows; every transition is one compare-and-set."""

import sqlite3
import time
from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager
from pathlib import Path

from skillpouch.environment import state_directory
from skillpouch.jobs.job import (
    FINAL,
    OUTPUT_BYTES,
    Job,
    JobCancelledError,
    JobLostError,
    JobOutput,
    JobQueueFullError,
    JobRow,
    JobState,
    JobStoreError,
    JobTimeoutError,
    NewJob,
    NoSuchJobError,
)
from skillpouch.jobs.kept_json import error_from_json, result_from_json
from skillpouch.jobs.output_file import output_size, read_output
from skillpouch.jobs.question_store import (
    QUESTIONS,
    QuestionStore,
    find_id,
    last_question,
    outdate_questions,
)
from skillpouch.results import Progress, ToolResult
from skillpouch.runtime.owners import ProcessIdentity, state_of, this_process
from skillpouch.store.database import Database, Format

_SCHEMA = """
CREATE TABLE processes (
    id INTEGER PRIMARY KEY, pid INTEGER, began TEXT, boot TEXT, namespace TEXT, machine TEXT,
    UNIQUE (pid, began, boot, namespace, machine)
);
CREATE TABLE setups (hash TEXT PRIMARY KEY, text TEXT);
CREATE TABLE jobs (
    number INTEGER PRIMARY KEY, id TEXT UNIQUE, tool TEXT, session TEXT, owner TEXT, state TEXT,
    created_ns INTEGER, started_ns INTEGER, ended_ns INTEGER, process INTEGER,
    own INTEGER, attempts INTEGER, retries INTEGER, cancelling INTEGER, setup TEXT, call TEXT,
    done REAL, total REAL, message TEXT, result TEXT, error TEXT, bytes INTEGER
);
CREATE INDEX jobs_by_state ON jobs (state, number);
CREATE INDEX jobs_by_session ON jobs (session, number);
"""
_FORMAT = Format(
    file_name="jobs.sqlite3",
    application=0x736B7062,  # "skpb"
    version=1,
    schema=_SCHEMA + QUESTIONS,
    explain=lambda path, reason, hint: JobStoreError(path, reason, hint=hint),
    # An id that was given away must survive a loss of power.
    synchronous="FULL",
    own_folder=True,
    if_damaged="move it away, with its -wal and -shm; the jobs in it are lost then",
)
_COLUMNS = (
    "id, tool, session, owner, state, created_ns, started_ns, ended_ns, process, own,"
    " attempts, retries, cancelling, done, total, message"
)
_ROW_BYTES = 1024  # what a row takes beside its result
_ENDED = ", ".join(f"'{state}'" for state in FINAL)


class JobStore:
    """The jobs of a user, in a folder that nobody else can open: rows, and files with output.

    Each change is on the disk when its method returns, or when the outer `together` ends.
    """

    def __init__(self, directory: Path | None = None) -> None:
        state = None if directory else state_directory()
        self.directory = directory or (state and state / "jobs")
        self._database = Database(self.directory, _FORMAT)
        self._change = self._database.change
        self._read = self._database.read
        self.questions = QuestionStore(self._database)

    @property
    def exists(self) -> bool:
        """Whether there is a file of jobs; looking into one that is not there would make it."""
        return self._database.exists

    def together(self) -> AbstractContextManager[sqlite3.Connection]:
        """Commit all changes in this block at once."""
        return self._database.change()

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        self._database.close()

    def this_process(self) -> int:
        """Return the number of this process, under which it takes jobs."""
        with self._change() as connection:
            return _number_of(connection, this_process())

    def add(self, job: NewJob, *, most_queued: int = 10_000) -> tuple[bool, int]:
        """Add a job, and return whether it is new, and when it was made.

        A caller may ask twice after a crash: there is one job of an id.
        """
        now = job.started_ns or time.time_ns()
        with self._change() as connection:
            query = "SELECT created_ns FROM jobs WHERE id = ?"
            known = connection.execute(query, (job.id,)).fetchone()
            if known:
                return False, known[0]
            query = "SELECT count(*) FROM jobs WHERE state = 'queued'"
            (queued,) = connection.execute(query).fetchone()
            if queued >= most_queued and job.process is None:
                raise JobQueueFullError(most_queued, _seconds_per_job(connection))
            connection.execute(
                "INSERT INTO setups VALUES (?, ?) ON CONFLICT (hash) DO NOTHING",
                (job.setup_hash, job.setup),
            )
            own = job.process is not None
            connection.execute(
                "INSERT INTO jobs (id, tool, session, owner, state, created_ns, started_ns,"
                " process, own, attempts, retries, cancelling, setup, call, message, bytes)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, '', 0)",
                (
                    *(job.id, job.tool, job.session, job.owner, "running" if own else "queued"),
                    *(now, now if own else None, job.process, int(own), int(own), job.retries),
                    *(job.setup_hash, job.call),
                ),
            )
        return True, now

    def get(self, job_id: str) -> JobRow:
        """Return a job; one whose process has died is `lost` from then on."""
        row = self._row(job_id)
        if row.process is not None and row.state not in FINAL and self._is_dead(row):
            self.settle_dead([row.process])
            row = self._row(job_id)
        return row

    def job(self, job_id: str) -> Job:
        """Return the handle of a job."""
        return Job(self.get(job_id), self)

    def jobs(
        self,
        *,
        state: JobState | Collection[JobState] | None = None,
        session: str | None = None,
        owner: str | None = None,
        limit: int = 100,
    ) -> list[Job]:
        """Return jobs, the newest first."""
        if not self.exists:
            return []
        states = (state,) if isinstance(state, str) else tuple(state or ())
        self.settle_dead()
        several = {
            "state": states,
            "session": () if session is None else (session,),
            "owner": () if owner is None else (owner,),
        }
        wanted = [f"{name} IN ({_marks(each)})" for name, each in several.items() if each]
        values = [value for each in several.values() for value in each]
        where = f"WHERE {' AND '.join(wanted)}" if wanted else ""
        query = f"SELECT {_COLUMNS} FROM jobs {where} ORDER BY number DESC LIMIT ?"  # noqa: S608
        rows = self._read(lambda c: c.execute(query, (*values, limit)).fetchall())
        return [Job(_row(found), self) for found in rows]

    def find(self, beginning: str) -> str:
        """Return the id of the only job whose id begins so."""
        found = find_id(self._database, "jobs", beginning)
        if found is None:
            raise NoSuchJobError(beginning)
        return found

    def _row(self, job_id: str) -> JobRow:
        query = f"SELECT {_COLUMNS} FROM jobs WHERE id = ?"  # noqa: S608 - our own names
        found = None
        if self.exists:
            found = self._read(lambda c: c.execute(query, (job_id,)).fetchone())
        if found is None:
            raise NoSuchJobError(job_id)
        return _row(found)

    def next_queued(
        self, most: int, *, sessions: Iterable[str] = (), tools: Iterable[str] = ()
    ) -> list[JobRow]:
        """Return the oldest jobs that a host may take, but not of these sessions and tools."""
        but = [("session", tuple(sessions)), ("tool", tuple(tools))]
        parts = [f"AND {name} NOT IN ({_marks(each)})" for name, each in but if each]
        query = (
            f"SELECT {_COLUMNS} FROM jobs WHERE state = 'queued' {' '.join(parts)}"  # noqa: S608
            " ORDER BY number LIMIT ?"
        )
        values = [each for _, several in but for each in several]
        rows = self._read(lambda c: c.execute(query, (*values, most)).fetchall())
        return [_row(found) for found in rows]

    def waiting(self, tool: str, session: str, owner: str) -> list[tuple[str, str, str]]:
        """Return id, setup and call of each job of an owner that waits for approval."""
        query = (
            "SELECT id, setup, call FROM jobs WHERE state = 'waiting_for_approval' AND tool = ?"
            " AND session = ? AND owner = ? ORDER BY number"
        )
        values = (tool, session, owner)
        return self._read(lambda c: c.execute(query, values).fetchall()) if self.exists else []

    def call_of(self, job_id: str) -> tuple[str, str]:
        """Return the setup and the call of a job."""
        query = "SELECT text, call FROM jobs JOIN setups ON hash = setup WHERE jobs.id = ?"
        found = self._read(lambda c: c.execute(query, (job_id,)).fetchone())
        if found is None:
            raise NoSuchJobError(job_id)
        return found[0], found[1]

    def claim(self, job_id: str, process: int) -> bool:
        """Take a queued job for a process, which runs it next; False if it is not queued."""
        return self._set(
            "state = 'running', process = ?, attempts = attempts + 1,"
            " started_ns = CASE WHEN created_ns > ? THEN created_ns ELSE ? END",
            (process, *_twice()),
            "id = ? AND state = 'queued'",
            (job_id,),
        )

    def finish(
        self,
        job_id: str,
        process: int,
        state: JobState,
        *,
        result: str | None = None,
        error: str | None = None,
    ) -> bool:
        """End a job of a process; False if it has ended already, for whatever reason."""
        kept = len(result or "") + len(error or "") + output_size(self.output_path(job_id))
        with self._change() as connection:
            outdate_questions(connection, [job_id])
            return self._set(
                "state = ?, result = ?, error = ?, bytes = ?, call = '',"
                " ended_ns = CASE WHEN started_ns > ? THEN started_ns ELSE ? END",
                (state, result, error, kept, *_twice()),
                "id = ? AND process = ? AND state IN ('running', 'waiting_for_approval')",
                (job_id, process),
            )

    def report(self, job_id: str, progress: Progress) -> None:
        """Keep what a call reports of its progress."""
        self._set(
            "done = ?, total = ?, message = ?",
            (progress.done, progress.total, progress.message),
            f"id = ? AND state NOT IN ({_ENDED})",
            (job_id,),
        )

    def cancel(self, job_id: str) -> JobState:
        """Cancel a job that no process runs; of any other, note that its end is wanted."""
        self.get(job_id)
        with self._change() as connection:
            self._set(
                "state = 'cancelled', call = '',"
                " ended_ns = CASE WHEN created_ns > ? THEN created_ns ELSE ? END",
                _twice(),
                "id = ? AND process IS NULL AND state IN ('queued', 'waiting_for_approval')",
                (job_id,),
            )
            self._set("cancelling = 1", (), f"id = ? AND state NOT IN ({_ENDED})", (job_id,))
            state = self._row(job_id).state
            if state in FINAL:
                outdate_questions(connection, [job_id])
        return state

    def settle_dead(self, processes: Collection[int] | None = None) -> list[str]:
        """Settle the jobs of processes that have died, or of those named; return their ids.

        What ran is lost, unless it may be tried again; what waits for an answer that was asked for
        before it ran goes on waiting, or is queued if there is an answer.
        """
        dead = self._dead() if processes is None else processes
        settled: list[str] = []
        for process in dead:
            with self._change() as connection:
                query = (
                    f"SELECT {_COLUMNS} FROM jobs WHERE process = ?"  # noqa: S608
                    f" AND state NOT IN ({_ENDED})"
                )
                rows = [_row(found) for found in connection.execute(query, (process,))]
                for row in rows:
                    self._settle(connection, row)
                settled += [row.id for row in rows]
        return settled

    def settle_hosts(self, process: int) -> None:
        """Settle the jobs of all job hosts but this one: whoever holds the lock is the only one."""
        query = (
            "SELECT DISTINCT process FROM jobs WHERE own = 0 AND process IS NOT NULL"  # noqa: S608
            f" AND process <> ? AND state NOT IN ({_ENDED})"
        )
        rows = self._read(lambda c: c.execute(query, (process,)).fetchall())
        self.settle_dead([number for (number,) in rows])
        self.settle_dead()

    def release(self, job_id: str, process: int) -> bool:
        """Let a job that waits for an answer wait without a process."""
        return self._set(
            "process = NULL",
            (),
            "id = ? AND process = ? AND state = 'waiting_for_approval'",
            (job_id, process),
        )

    def _settle(self, connection: sqlite3.Connection, row: JobRow) -> None:
        asked = last_question(connection, row.id)
        state = "lost"  # also what ran in its caller's process: what it was made of is gone
        if row.cancelling:
            state = "cancelled"
        elif not row.own and row.state == "waiting_for_approval" and asked and not asked.after_run:
            state = row.state if asked.state == "pending" else "queued"
        elif not row.own and row.state == "running" and row.attempts <= row.retries:
            state = "queued"
        ended = time.time_ns() if state in FINAL else None
        self._set("state = ?, process = NULL, ended_ns = ?", (state, ended), "id = ?", (row.id,))
        if state in FINAL:
            outdate_questions(connection, [row.id])

    def _dead(self) -> list[int]:
        """Return the processes that have died, and have jobs that have not ended."""
        query = (
            "SELECT processes.id, pid, began, boot, namespace, machine, max(created_ns) FROM jobs"  # noqa: S608
            f" JOIN processes ON processes.id = process WHERE state NOT IN ({_ENDED})"
            " GROUP BY processes.id"
        )
        rows = self._read(lambda c: c.execute(query).fetchall())
        return [
            number
            for number, *identity, created in rows
            if state_of(ProcessIdentity(*identity), created) == "interrupted"
        ]

    def _is_dead(self, row: JobRow) -> bool:
        query = "SELECT pid, began, boot, namespace, machine FROM processes WHERE id = ?"
        found = self._read(lambda c: c.execute(query, (row.process,)).fetchone())
        return found is None or state_of(ProcessIdentity(*found), row.created_ns) == "interrupted"

    def result(self, job_id: str) -> ToolResult:
        """Return the result of a job that has ended, or raise what `Job.result` raises."""
        row = self.get(job_id)
        query = "SELECT result, error FROM jobs WHERE id = ?"
        found = self._read(lambda c: c.execute(query, (job_id,)).fetchone())
        result, error = found or (None, None)
        if row.state not in FINAL:
            raise JobTimeoutError(job_id, 0.0, row.state)
        if row.state == "cancelled":
            raise JobCancelledError(job_id, row.tool)
        if error is not None:
            raise error_from_json(error)
        if result is None:
            raise JobLostError(job_id, row.tool, self.questions.why_lost(job_id))
        return result_from_json(result)

    def output(self, job_id: str, offset: int = 0, *, most_bytes: int = OUTPUT_BYTES) -> JobOutput:
        """Return what a job has written, from an offset."""
        # The state first: what is written before the end of a job is read after it.
        is_final = self.get(job_id).state in FINAL
        found = read_output(self.output_path(job_id), offset, most_bytes)
        return JobOutput(
            data=found.data,
            offset=found.offset,
            next_offset=found.next_offset,
            left_out=found.left_out,
            is_final=is_final,
        )

    def prune(self, *, seconds: float, most_bytes: int | None = None) -> int:
        """Remove jobs that ended so long ago, and the oldest if the rest is too large.

        Returns how many were removed, with their output.
        """
        before = time.time_ns() - int(seconds * 1e9)
        ended = f"state IN ({_ENDED})"
        query = f"SELECT id, ended_ns, bytes FROM jobs WHERE {ended} ORDER BY number DESC"  # noqa: S608
        rows = self._read(lambda c: c.execute(query).fetchall()) if self.exists else []
        kept, gone = 0, list[str]()
        for job_id, ended_ns, size in rows:
            kept += size + _ROW_BYTES
            if ended_ns < before or (most_bytes is not None and kept > most_bytes):
                gone.append(job_id)
        for some in (gone[at : at + 500] for at in range(0, len(gone), 500)):
            self._remove(some)
        return len(gone)

    def _remove(self, jobs: list[str]) -> None:
        # The files first: a row without its output can be removed again, a file without a row is
        # found by nobody.
        for job in jobs:
            self.output_path(job).unlink(missing_ok=True)
        marks = _marks(jobs)
        with self._change() as connection:
            connection.execute(f"DELETE FROM questions WHERE job IN ({marks})", jobs)  # noqa: S608
            connection.execute(f"DELETE FROM jobs WHERE id IN ({marks})", jobs)  # noqa: S608
            connection.execute(
                "DELETE FROM setups WHERE NOT EXISTS"
                " (SELECT 1 FROM jobs WHERE jobs.setup = setups.hash)"
            )

    def output_path(self, job_id: str) -> Path:
        """Return the file for the output of a job."""
        if self.directory is None:
            raise JobStoreError(None, "there is no home directory", hint=_FORMAT.without_home)
        return self.directory / "output" / job_id

    def _set(
        self, what: str, values: tuple[object, ...], where: str, of: tuple[object, ...]
    ) -> bool:
        query = f"UPDATE jobs SET {what} WHERE {where}"  # noqa: S608 - our own names
        with self._change() as connection:
            return connection.execute(query, (*values, *of)).rowcount == 1


def _row(found: tuple[object, ...]) -> JobRow:
    names = [name.strip() for name in _COLUMNS.split(",")]
    facts = dict(zip(names, found, strict=True))
    done, total, message = (facts.pop(name) for name in ("done", "total", "message"))
    progress = None
    if done is not None:
        progress = Progress(done=done, total=total, message=message or "")  # type: ignore[arg-type]
    facts |= {name: bool(facts[name]) for name in ("own", "cancelling")}
    return JobRow(**facts, progress=progress)  # type: ignore[arg-type]  # as they were written


def _marks(values: Collection[object]) -> str:
    return ", ".join("?" * len(values))


def _twice() -> tuple[int, int]:
    """Return the time, for `CASE`: a clock that jumps back must not end a job before it began."""
    now = time.time_ns()
    return now, now


def _number_of(connection: sqlite3.Connection, identity: ProcessIdentity) -> int:
    connection.execute(
        "INSERT INTO processes (pid, began, boot, namespace, machine) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (pid, began, boot, namespace, machine) DO NOTHING",
        identity,
    )
    query = (
        "SELECT id FROM processes WHERE (pid, began, boot, namespace, machine) = (?, ?, ?, ?, ?)"
    )
    (number,) = connection.execute(query, identity).fetchone()
    return int(number)


def _seconds_per_job(connection: sqlite3.Connection) -> float:
    """Return the seconds after which a place in the queue becomes free, by the last jobs."""
    query = (
        "SELECT min(ended_ns), max(ended_ns), count(*) FROM (SELECT ended_ns FROM jobs"
        " WHERE state IN ('done', 'failed') ORDER BY number DESC LIMIT 50)"
    )
    first, last, count = connection.execute(query).fetchone()
    if count < 2:  # noqa: PLR2004 - a rate needs two
        return 5.0
    return float(round(min(max((last - first) / 1e9 / (count - 1), 1.0), 3600.0), 1))
