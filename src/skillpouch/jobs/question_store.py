"""QuestionStore: the questions of jobs as rows; the first answer counts."""

import sqlite3
import time
from collections.abc import Iterable
from secrets import token_hex
from typing import Literal

from skillpouch.jobs.job import (
    AlreadyAnsweredError,
    AmbiguousIdError,
    KeptQuestion,
    NoSuchQuestionError,
    QuestionExpiredError,
    QuestionState,
    time_of,
)
from skillpouch.jobs.kept_json import (
    answer_from_json,
    answer_to_json,
    question_from_json,
    question_to_json,
)
from skillpouch.policy.approval import ANSWERERS, Answer, Answerer, Question
from skillpouch.store.database import Database

_COLUMNS = (
    "id, job, question, after_run, asked_ns, until_ns, state, answered_by, reason, answer, who,"
    " webhook"
)
_MOST_NAMED = 5
_MOST_LASTING = 1_000  # approvals of one session
QUESTIONS = """
CREATE TABLE questions (
    number INTEGER PRIMARY KEY, id TEXT UNIQUE, job TEXT, question TEXT, after_run INTEGER,
    asked_ns INTEGER, until_ns INTEGER, state TEXT, answered_by TEXT, reason TEXT, answer TEXT,
    who TEXT, webhook TEXT, scope TEXT
);
CREATE INDEX questions_by_job ON questions (job, number);
CREATE INDEX questions_by_state ON questions (state, number);
"""


class QuestionStore:
    """The questions in the file of jobs. A job waits for at most one of them at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._change = database.change
        self._read = database.read

    def ask(  # noqa: PLR0913 - passed by keyword
        self,
        job: str,
        process: int,
        question: Question,
        *,
        seconds: float | None,
        after_run: bool,
        who: Iterable[Answerer] = ANSWERERS,
        scope: str = "",
    ) -> KeptQuestion | None:
        """Keep a question of a running job, which waits for an answer from then on.

        None if the job does not run, or not in this process. Without `seconds` it never expires.
        `who` may answer it; for a `scope`, such as a session, an answer may last.
        """
        question_id, now = f"q{token_hex(16)}", time.time_ns()
        until = None if seconds is None else now + int(seconds * 1e9)
        with self._change() as connection:
            waits = connection.execute(
                "UPDATE jobs SET state = 'waiting_for_approval'"
                " WHERE id = ? AND process = ? AND state = 'running'",
                (job, process),
            )
            if waits.rowcount != 1:
                return None
            connection.execute(
                "INSERT INTO questions (id, job, question, after_run, asked_ns, until_ns, state,"
                " answered_by, reason, who, webhook, scope)"
                " VALUES (?, ?, ?, ?, ?, ?, 'pending', '', '', ?, '', ?)",
                (
                    *(question_id, job, question_to_json(question), int(after_run)),
                    *(now, until, " ".join(who), scope),
                ),
            )
        return self.get(question_id)

    def resume(self, job: str, process: int) -> bool:
        """Let a job go on that waited in this process; False if it no longer does."""
        query = (
            "UPDATE jobs SET state = 'running'"
            " WHERE id = ? AND process = ? AND state = 'waiting_for_approval'"
        )
        with self._change() as connection:
            return connection.execute(query, (job, process)).rowcount == 1

    def answer(self, question_id: str, answer: Answer, *, by: str) -> KeptQuestion:
        """Answer a question; a job that waits and that no process runs is queued then.

        Raises:
            NoSuchQuestionError: there is none of this id.
            AlreadyAnsweredError: somebody was first.
            QuestionExpiredError: it is too late, or something else would run now.
        """
        state = "approved" if answer.yes else "denied"
        with self._change() as connection:
            _expire(connection)
            told = connection.execute(
                "UPDATE questions SET state = ?, answered_by = ?, reason = ?, answer = ?"
                " WHERE id = ? AND state = 'pending'",
                (state, by, answer.reason, answer_to_json(answer), question_id),
            )
            if told.rowcount == 1:
                _queue(connection)
        found = self.get(question_id)
        if told.rowcount == 1:
            return found
        if found.state in ("expired", "outdated"):
            raise QuestionExpiredError(question_id, found.state)
        raise AlreadyAnsweredError(question_id, found.state, found.answered_by)

    def outdate(self, question_id: str) -> None:
        """Note that a question asks about what would no longer run: its answer counts nothing."""
        with self._change() as connection:
            connection.execute(
                "UPDATE questions SET state = 'outdated' WHERE id = ?", (question_id,)
            )

    def note_webhook(self, question_id: str, told: str) -> None:
        """Keep what became of sending a question."""
        with self._change() as connection:
            query = "UPDATE questions SET webhook = ? WHERE id = ?"
            connection.execute(query, (told, question_id))

    def expire(self) -> None:
        """Note which questions are too old; a job that waits and that no process runs is queued."""
        with self._change() as connection:
            _expire(connection)
            _queue(connection)

    def get(self, question_id: str) -> KeptQuestion:
        """Return a question."""
        query = f"SELECT {_COLUMNS} FROM questions WHERE id = ?"  # noqa: S608 - our own names
        found = None
        if self._database.exists:
            found = self._read(lambda c: c.execute(query, (question_id,)).fetchone())
        if found is None:
            raise NoSuchQuestionError(question_id)
        return _question(found)

    def find(self, beginning: str) -> str:
        """Return the id of the only question whose id begins so."""
        found = find_id(self._database, "questions", beginning)
        if found is None:
            raise NoSuchQuestionError(beginning)
        return found

    def all(self) -> list[KeptQuestion]:
        """Return every question that is kept, the oldest first."""
        if not self._database.exists:
            return []
        query = f"SELECT {_COLUMNS} FROM questions ORDER BY number"  # noqa: S608 - our own names
        return [_question(found) for found in self._read(lambda c: c.execute(query).fetchall())]

    def pending(self) -> list[KeptQuestion]:
        """Return the questions that wait for an answer, the oldest first."""
        if not self._database.exists:
            return []
        query = f"SELECT {_COLUMNS} FROM questions WHERE state = 'pending' ORDER BY number"  # noqa: S608
        return [_question(found) for found in self._read(lambda c: c.execute(query).fetchall())]

    def lasting_of(self, scope: str) -> list[KeptQuestion]:
        """Return the questions of a scope that were approved for all of it, the newest first."""
        query = (
            f"SELECT {_COLUMNS} FROM questions WHERE state = 'approved' AND scope = ?"  # noqa: S608
            " ORDER BY number DESC LIMIT ?"
        )
        rows = self._read(lambda c: c.execute(query, (scope, _MOST_LASTING)).fetchall())
        found = map(_question, rows)
        return [each for each in found if each.answer and each.answer.remember != "once"]

    def why_lost(self, job: str) -> str:
        """Return what somebody should know of a job that is lost, "" if it is nothing special."""
        asked = self.last_of(job)
        if asked is None or not asked.question.changes or asked.answer is not None:
            return ""
        return (
            "the process that ran it has ended while somebody was asked about what it changed;"
            " the changes are kept (`skillpouch changes`, `skillpouch apply CALL`)"
        )

    def last_of(self, job: str) -> KeptQuestion | None:
        """Return the last question of a job, answered or not."""
        return self._read(lambda connection: last_question(connection, job))

    def pending_of(self, job: str) -> KeptQuestion | None:
        """Return the question that a job waits for."""
        found = self.last_of(job)
        return found if found is not None and found.state == "pending" else None

    def all_of(self, job: str) -> list[KeptQuestion]:
        """Return every question of a job, the oldest first."""
        query = f"SELECT {_COLUMNS} FROM questions WHERE job = ? ORDER BY number"  # noqa: S608
        rows = self._read(lambda c: c.execute(query, (job,)).fetchall())
        return [_question(found) for found in rows]


def find_id(database: Database, table: Literal["jobs", "questions"], beginning: str) -> str | None:
    """Return the only id that begins so, None without one; raise AmbiguousIdError for several."""
    if len(beginning) <= 1 or not database.exists:
        return None
    query = f"SELECT id FROM {table} WHERE id >= ? AND id < ? ORDER BY id LIMIT ?"  # noqa: S608
    # Ids are a letter and hexadecimal digits: `~` comes after all of them.
    values = (beginning, f"{beginning}~", _MOST_NAMED)
    found = [each for (each,) in database.read(lambda c: c.execute(query, values).fetchall())]
    if len(found) > 1:
        raise AmbiguousIdError(beginning, found)
    return found[0] if found else None


def last_question(connection: sqlite3.Connection, job: str) -> KeptQuestion | None:
    """Return the last question of a job."""
    query = f"SELECT {_COLUMNS} FROM questions WHERE job = ? ORDER BY number DESC LIMIT 1"  # noqa: S608
    found = connection.execute(query, (job,)).fetchone()
    return None if found is None else _question(found)


def outdate_questions(connection: sqlite3.Connection, jobs: Iterable[str]) -> None:
    """Note that nobody waits for the answers to the questions of jobs that have ended."""
    connection.executemany(
        "UPDATE questions SET state = 'outdated' WHERE job = ? AND state = 'pending'",
        [(job,) for job in jobs],
    )


def _expire(connection: sqlite3.Connection) -> None:
    connection.execute(
        "UPDATE questions SET state = 'expired' WHERE state = 'pending' AND until_ns < ?",
        (time.time_ns(),),
    )


def _queue(connection: sqlite3.Connection) -> None:
    """Queue the jobs that no process runs, and whose question no longer waits for an answer."""
    connection.execute(
        "UPDATE jobs SET state = 'queued'"
        " WHERE state = 'waiting_for_approval' AND process IS NULL AND NOT EXISTS"
        " (SELECT 1 FROM questions WHERE questions.job = jobs.id AND questions.state = 'pending')"
    )


def _question(found: tuple[object, ...]) -> KeptQuestion:
    question_id, job, text, after_run, asked, until, *rest = found
    state, by, reason, answer, who, webhook = rest
    asked_at = time_of(int(str(asked)))
    assert asked_at is not None
    return KeptQuestion(
        id=str(question_id),
        job=str(job),
        question=question_from_json(str(text)),
        asked_at=asked_at,
        until=None if until is None else time_of(int(str(until))),
        state=_state(state),
        answered_by=str(by),
        reason=str(reason),
        answer=None if answer is None else answer_from_json(str(answer)),
        after_run=bool(after_run),
        who=tuple(each for each in ANSWERERS if each in str(who).split()),
        webhook=str(webhook),
    )


def _state(word: object) -> QuestionState:
    return word  # type: ignore[return-value]  # as it was written
