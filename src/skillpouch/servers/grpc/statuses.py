"""The gRPC status and details for each error."""

import logging
import math
from typing import Any, NoReturn

import grpc
from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from skillpouch.errors import InvalidArgumentsError, SkillpouchError
from skillpouch.servers.faults import Fault, fault_of, shorten_error
from skillpouch.servers.grpc.v1 import skillpouch_pb2 as pb


class MessageError(SkillpouchError):
    """A field of a request whose value is not valid."""

    code = "invalid_message"

    def __init__(self, field: str, reason: str) -> None:
        self.field = field
        super().__init__(f"{field}: {reason}", hint=f"write {field} as skillpouch.proto says")


class CallIdInUseError(SkillpouchError):
    code = "call_id_in_use"

    def __init__(self, call_id: str) -> None:
        self.call_id = call_id
        super().__init__(
            f"a call named {call_id!r:.80} is running", hint="give each call a name of its own"
        )


class CallCancelledError(SkillpouchError):
    """A call that a client cancelled, and that has ended."""

    code = "cancelled"

    def __init__(self) -> None:
        super().__init__("the call was cancelled")


class TokenNeededError(SkillpouchError):
    code = "unauthenticated"

    def __init__(self) -> None:
        super().__init__(
            "a token is needed", hint="send it in the metadata: authorization: Bearer TOKEN"
        )


class AnswersRefusedError(SkillpouchError):
    """The owner of the server answers what jobs ask, and its clients do not."""

    code = "answers_refused"

    def __init__(self, approval_id: str) -> None:
        super().__init__(
            "this server does not let its clients approve calls",
            hint=f"its owner answers with `skillpouch approve {approval_id}`, or serves with "
            "`--approvals client`",
        )


DOMAIN = "skillpouch"

_log = logging.getLogger(__name__)

_CODES: dict[Fault, grpc.StatusCode] = {
    "not_found": grpc.StatusCode.NOT_FOUND,
    "invalid": grpc.StatusCode.INVALID_ARGUMENT,
    "unauthenticated": grpc.StatusCode.UNAUTHENTICATED,
    "denied": grpc.StatusCode.PERMISSION_DENIED,
    "not_started": grpc.StatusCode.FAILED_PRECONDITION,
    "exists": grpc.StatusCode.ALREADY_EXISTS,
    "ended": grpc.StatusCode.ABORTED,
    "cancelled": grpc.StatusCode.CANCELLED,
    "busy": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "stopping": grpc.StatusCode.UNAVAILABLE,
    "internal": grpc.StatusCode.INTERNAL,
}
# An error travels in headers, of which clients take 8 KiB, percent- or base64-encoded.
_LONGEST_MESSAGE, _LONGEST_HINT, _LONGEST_PROBLEM, _MOST_PROBLEMS = 1_000, 500, 200, 8
_RETRY_SECONDS = 1


async def abort(context: "grpc.aio.ServicerContext[Any, Any]", error: Exception) -> NoReturn:
    """End a request with an error. Internal errors are described in the log only."""
    code, message, details = status_of(error)
    status = Status(code=code.value[0], message=message, details=[_packed(d) for d in details])
    trailing = (("grpc-status-details-bin", status.SerializeToString()),)
    await context.abort(code, message, trailing)


def status_of(error: Exception) -> tuple[grpc.StatusCode, str, list[Message]]:
    """Return the status, the message and the details of an error."""
    fault = fault_of(error) if isinstance(error, SkillpouchError) else "internal"
    if not isinstance(error, SkillpouchError) or fault == "internal":
        _log.error("a request failed", exc_info=error)
        info = ErrorInfo(reason="internal", domain=DOMAIN)
        return _CODES["internal"], "something went wrong; the log of the server says what", [info]
    # A client may be anywhere: where things are on this machine is nothing to it.
    steps = {"hint": error.hint, "advice": error.advice}
    told = {k: _cut(shorten_error(step, error), _LONGEST_HINT) for k, step in steps.items() if step}
    details: list[Message] = [ErrorInfo(reason=error.code, domain=DOMAIN, metadata=told)]
    if violations := _violations(error):
        details.append(BadRequest(field_violations=violations))
    if fault in ("busy", "stopping"):
        after = math.ceil(getattr(error, "retry_after", _RETRY_SECONDS))
        details.append(RetryInfo(retry_delay=Duration(seconds=after)))
    return _CODES[fault], _cut(shorten_error(str(error), error), _LONGEST_MESSAGE), details


def error_message(error: SkillpouchError) -> pb.JobError:
    """Return why a job has no result."""
    _, message, (info, *_) = status_of(error)
    assert isinstance(info, ErrorInfo)
    return pb.JobError(code=info.reason, message=message, hint=info.metadata.get("hint", ""))


def _violations(error: SkillpouchError) -> list[BadRequest.FieldViolation]:
    match error:
        case InvalidArgumentsError():
            field, problems = "args_json", tuple(error.problems)
        case MessageError():
            field, problems = error.field, (str(error),)
        case _:
            return []
    return [
        BadRequest.FieldViolation(field=field, description=_cut(problem, _LONGEST_PROBLEM))
        for problem in problems[:_MOST_PROBLEMS]
    ]


def _packed(message: Message) -> Packed:
    packed = Packed()
    packed.Pack(message)
    return packed


def _cut(text: str, most_bytes: int) -> str:
    data = text.encode("utf-8", "replace")
    return data[:most_bytes].decode("utf-8", "ignore") + ("…" if len(data) > most_bytes else "")
