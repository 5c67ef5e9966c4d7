"""Conversations side by side, each with its own workspace, skills, policy and environment."""

from skillpouch.sessions.errors import (
    SessionEndedError,
    SessionError,
    SessionExistsError,
    SessionPolicyError,
    SessionStoreError,
    UnknownSessionError,
)
from skillpouch.sessions.manager import SessionManager

__all__ = [
    "SessionEndedError",
    "SessionError",
    "SessionExistsError",
    "SessionManager",
    "SessionPolicyError",
    "SessionStoreError",
    "UnknownSessionError",
]
