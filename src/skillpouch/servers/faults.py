"""Errors as a server may show them, without folders of this machine."""

import re
from collections.abc import Mapping
from typing import Literal

from skillpouch.errors import SkillpouchError

# What a client can do about it decides: ask for something else, write other arguments, get a
# permission, repair the machine, try again, or nothing.
Fault = Literal[
    "not_found",
    "invalid",
    "unauthenticated",
    "denied",
    "not_started",
    "exists",
    "ended",
    "cancelled",
    "busy",
    "stopping",
    "internal",
]

FAULTS: dict[str, Fault] = {
    "unknown_tool": "not_found",
    "ambiguous_name": "not_found",
    "skill_not_found": "not_found",
    "unknown_session": "not_found",
    "no_such_change": "not_found",
    "nothing_kept": "not_found",
    "unknown_change": "invalid",
    "invalid_arguments": "invalid",
    "invalid_message": "invalid",
    "time_limit": "invalid",
    "session_name": "invalid",
    "skill_name": "invalid",
    "skill_text": "invalid",
    "outside_skill": "invalid",
    "template": "invalid",
    "template_value": "invalid",
    "unauthenticated": "unauthenticated",
    "denied": "denied",
    "missing_extra": "not_started",
    "session_policy": "not_started",
    "journal_unavailable": "not_started",
    "session_exists": "exists",
    "call_id_in_use": "exists",
    "session_ended": "ended",
    "cancelled": "cancelled",
    "sandbox_failed": "not_started",
    "sandbox_unavailable": "not_started",
    "cannot_start": "not_started",
    "dependency": "not_started",
    "skill_unreadable": "not_started",
    "policy_file": "not_started",
    "change_state": "not_started",
    "other_workspace": "not_started",
    "change_store": "not_started",
    "changes_full": "not_started",
    "writes_unavailable": "not_started",
    "no_such_job": "not_found",
    "no_such_question": "not_found",
    "not_idempotent": "invalid",
    "job_cancelled": "cancelled",
    "job_lost": "ended",
    "job_store": "not_started",
    "job_host": "not_started",
    "job_skill_changed": "not_started",
    "job_secrets_gone": "not_started",
    "may_not_answer": "denied",
    "answers_refused": "denied",
    "lasting_answer": "invalid",
    "ambiguous_id": "invalid",
    "already_answered": "exists",
    "question_expired": "ended",
    "job_timeout": "busy",
    "queue_full": "busy",
    "server_busy": "busy",
    "server_stopping": "stopping",
}


def fault_of(error: SkillpouchError) -> Fault:
    """Return the kind of an error: that of its class, or of the nearest base class."""
    for kind in type(error).__mro__:
        fault = FAULTS.get(getattr(kind, "code", ""))
        if fault is not None:
            return fault
    return "internal"


def said(error: SkillpouchError) -> str:
    """Return what a model is told: the message and, if there is one, the next step."""
    return f"{error}\nhint: {error.advice}" if error.advice else str(error)


class AddressError(SkillpouchError):
    """An address at which a server cannot listen, or not safely."""

    code = "address"

    def __init__(self, text: str, reason: str, *, hint: str = "") -> None:
        self.text = text
        super().__init__(f"cannot listen at {text}: {reason}", hint=hint)


class TokenFileError(SkillpouchError):
    """A file of tokens that cannot be used."""

    code = "token_file"

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        super().__init__(
            f"{path} cannot be used: {reason}",
            hint="one token per line, 16 characters or more, in a file that only you can read "
            "(chmod 600)",
        )


class CertificateError(SkillpouchError):
    """A certificate or key that cannot be used."""

    code = "certificate"

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        super().__init__(
            f"cannot use the certificate {path}: {reason}",
            hint="give --tls-cert and --tls-key as PEM files that belong together",
        )


class ServerBusyError(SkillpouchError):
    """More calls are waiting than the server holds; the same call may pass a moment later."""

    code = "server_busy"

    def __init__(self, running: int, waiting: int) -> None:
        self.running = running
        self.waiting = waiting
        super().__init__(
            f"the server is busy: {running} calls run and {waiting} wait", hint="try again later"
        )


class ServerStoppingError(SkillpouchError):
    """The server finishes what runs and takes nothing new."""

    code = "server_stopping"

    def __init__(self) -> None:
        super().__init__("the server is stopping", hint="connect again in a moment")


# An absolute path, and not a part of an address or of a relative path.
_ABSOLUTE = re.compile(r"(?<![\w/.~…-])/(?!/)[^\s'\"`,;:()<>\[\]{}|]+")
# Where every Linux machine has the same.
_EVERYWHERE = ("/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/", "/etc/", "/dev/", "/proc/", "/sys/")
# Errors about what the client said: the paths in them are its own words.
_OF_THE_CLIENT = ("invalid", "not_found")


def rename_folders(text: str, known: Mapping[str, str]) -> str:
    """Return a text in which some folders have other names, such as `skill://demo`."""
    for folder, name in sorted(known.items(), key=lambda item: -len(item[0])):
        if folder in text:
            text = re.sub(rf"{re.escape(folder)}(?![\w.-])", name.replace("\\", r"\\"), text)
    return text


def shorten_paths(text: str, known: Mapping[str, str] | None = None) -> str:
    """Return words of Skillpouch's in which no folder of this machine is named.

    Of a path that is not in one of the `known` folders only the last part is left.
    """
    return _ABSOLUTE.sub(_shortened, rename_folders(text, known or {}))


def shorten_error(text: str, error: SkillpouchError, known: Mapping[str, str] | None = None) -> str:
    """Return the message of an error without folders that the client did not name."""
    if fault_of(error) in _OF_THE_CLIENT:
        return rename_folders(text, known or {})
    return shorten_paths(text, known)


def _shortened(found: re.Match[str]) -> str:
    path = found[0].rstrip("/")
    if path.startswith(_EVERYWHERE) or "/" not in path[1:]:
        return found[0]
    return f"…/{path.rpartition('/')[2]}"
