from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CreateSessionRequest(_message.Message):
    __slots__ = ("session_id", "environment")
    class EnvironmentEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    environment: _containers.ScalarMap[str, str]
    def __init__(self, session_id: _Optional[str] = ..., environment: _Optional[_Mapping[str, str]] = ...) -> None: ...

class CreateSessionResponse(_message.Message):
    __slots__ = ("session_id",)
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    def __init__(self, session_id: _Optional[str] = ...) -> None: ...

class DestroySessionRequest(_message.Message):
    __slots__ = ("session_id",)
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    def __init__(self, session_id: _Optional[str] = ...) -> None: ...

class DestroySessionResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class UseSkillRequest(_message.Message):
    __slots__ = ("session_id", "skill_name", "skill_content")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    SKILL_NAME_FIELD_NUMBER: _ClassVar[int]
    SKILL_CONTENT_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    skill_name: str
    skill_content: str
    def __init__(self, session_id: _Optional[str] = ..., skill_name: _Optional[str] = ..., skill_content: _Optional[str] = ...) -> None: ...

class UseSkillResponse(_message.Message):
    __slots__ = ("tool_names", "problems")
    TOOL_NAMES_FIELD_NUMBER: _ClassVar[int]
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    tool_names: _containers.RepeatedScalarFieldContainer[str]
    problems: _containers.RepeatedCompositeFieldContainer[Problem]
    def __init__(self, tool_names: _Optional[_Iterable[str]] = ..., problems: _Optional[_Iterable[_Union[Problem, _Mapping]]] = ...) -> None: ...

class ListProblemsRequest(_message.Message):
    __slots__ = ("session_id",)
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    def __init__(self, session_id: _Optional[str] = ...) -> None: ...

class ListProblemsResponse(_message.Message):
    __slots__ = ("problems",)
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    problems: _containers.RepeatedCompositeFieldContainer[Problem]
    def __init__(self, problems: _Optional[_Iterable[_Union[Problem, _Mapping]]] = ...) -> None: ...

class Problem(_message.Message):
    __slots__ = ("path", "code", "severity", "message", "line")
    PATH_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    SEVERITY_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    path: str
    code: str
    severity: str
    message: str
    line: int
    def __init__(self, path: _Optional[str] = ..., code: _Optional[str] = ..., severity: _Optional[str] = ..., message: _Optional[str] = ..., line: _Optional[int] = ...) -> None: ...

class RemoveSkillRequest(_message.Message):
    __slots__ = ("session_id", "skill_name")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    SKILL_NAME_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    skill_name: str
    def __init__(self, session_id: _Optional[str] = ..., skill_name: _Optional[str] = ...) -> None: ...

class RemoveSkillResponse(_message.Message):
    __slots__ = ("removed_tools",)
    REMOVED_TOOLS_FIELD_NUMBER: _ClassVar[int]
    removed_tools: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, removed_tools: _Optional[_Iterable[str]] = ...) -> None: ...

class ListActiveSkillsRequest(_message.Message):
    __slots__ = ("session_id",)
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    def __init__(self, session_id: _Optional[str] = ...) -> None: ...

class ListActiveSkillsResponse(_message.Message):
    __slots__ = ("skill_names",)
    SKILL_NAMES_FIELD_NUMBER: _ClassVar[int]
    skill_names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, skill_names: _Optional[_Iterable[str]] = ...) -> None: ...

class ListToolsRequest(_message.Message):
    __slots__ = ("session_id", "page_size", "page_token")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    page_size: int
    page_token: str
    def __init__(self, session_id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListToolsResponse(_message.Message):
    __slots__ = ("tools", "next_page_token")
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    tools: _containers.RepeatedCompositeFieldContainer[Tool]
    next_page_token: str
    def __init__(self, tools: _Optional[_Iterable[_Union[Tool, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class Tool(_message.Message):
    __slots__ = ("id", "name", "skill", "description", "input_schema_json", "output_schema_json", "kind", "effects", "ready", "missing")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SKILL_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    INPUT_SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    EFFECTS_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    skill: str
    description: str
    input_schema_json: str
    output_schema_json: str
    kind: str
    effects: _containers.RepeatedScalarFieldContainer[str]
    ready: bool
    missing: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., skill: _Optional[str] = ..., description: _Optional[str] = ..., input_schema_json: _Optional[str] = ..., output_schema_json: _Optional[str] = ..., kind: _Optional[str] = ..., effects: _Optional[_Iterable[str]] = ..., ready: bool = ..., missing: _Optional[_Iterable[str]] = ...) -> None: ...

class ExecuteToolRequest(_message.Message):
    __slots__ = ("session_id", "tool", "args_json", "stdin", "timeout_seconds", "call_id", "writes")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    ARGS_JSON_FIELD_NUMBER: _ClassVar[int]
    STDIN_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    WRITES_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    tool: str
    args_json: str
    stdin: bytes
    timeout_seconds: float
    call_id: str
    writes: str
    def __init__(self, session_id: _Optional[str] = ..., tool: _Optional[str] = ..., args_json: _Optional[str] = ..., stdin: _Optional[bytes] = ..., timeout_seconds: _Optional[float] = ..., call_id: _Optional[str] = ..., writes: _Optional[str] = ...) -> None: ...

class ExecuteToolResponse(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: ToolResult
    def __init__(self, result: _Optional[_Union[ToolResult, _Mapping]] = ...) -> None: ...

class StreamToolRequest(_message.Message):
    __slots__ = ("session_id", "tool", "args_json", "stdin", "timeout_seconds", "call_id", "writes")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    ARGS_JSON_FIELD_NUMBER: _ClassVar[int]
    STDIN_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    WRITES_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    tool: str
    args_json: str
    stdin: bytes
    timeout_seconds: float
    call_id: str
    writes: str
    def __init__(self, session_id: _Optional[str] = ..., tool: _Optional[str] = ..., args_json: _Optional[str] = ..., stdin: _Optional[bytes] = ..., timeout_seconds: _Optional[float] = ..., call_id: _Optional[str] = ..., writes: _Optional[str] = ...) -> None: ...

class StreamToolResponse(_message.Message):
    __slots__ = ("output", "result", "progress")
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    output: OutputChunk
    result: ToolResult
    progress: Progress
    def __init__(self, output: _Optional[_Union[OutputChunk, _Mapping]] = ..., result: _Optional[_Union[ToolResult, _Mapping]] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("done", "total", "message")
    DONE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    done: float
    total: float
    message: str
    def __init__(self, done: _Optional[float] = ..., total: _Optional[float] = ..., message: _Optional[str] = ...) -> None: ...

class OutputChunk(_message.Message):
    __slots__ = ("stream", "data", "dropped_bytes")
    class Stream(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STREAM_UNSPECIFIED: _ClassVar[OutputChunk.Stream]
        STREAM_STDOUT: _ClassVar[OutputChunk.Stream]
        STREAM_STDERR: _ClassVar[OutputChunk.Stream]
    STREAM_UNSPECIFIED: OutputChunk.Stream
    STREAM_STDOUT: OutputChunk.Stream
    STREAM_STDERR: OutputChunk.Stream
    STREAM_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    DROPPED_BYTES_FIELD_NUMBER: _ClassVar[int]
    stream: OutputChunk.Stream
    data: bytes
    dropped_bytes: int
    def __init__(self, stream: _Optional[_Union[OutputChunk.Stream, str]] = ..., data: _Optional[bytes] = ..., dropped_bytes: _Optional[int] = ...) -> None: ...

class ToolResult(_message.Message):
    __slots__ = ("tool", "outcome", "is_error", "content", "structured_json", "exit_code", "stdout", "stderr", "truncated", "duration_ms", "protections", "code", "files", "files_complete", "attachments", "run_later", "writes", "changes", "conflicts", "kept_id", "changes_total")
    class ProtectionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TOOL_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    IS_ERROR_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    STRUCTURED_JSON_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    STDOUT_FIELD_NUMBER: _ClassVar[int]
    STDERR_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    PROTECTIONS_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    FILES_COMPLETE_FIELD_NUMBER: _ClassVar[int]
    ATTACHMENTS_FIELD_NUMBER: _ClassVar[int]
    RUN_LATER_FIELD_NUMBER: _ClassVar[int]
    WRITES_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    CONFLICTS_FIELD_NUMBER: _ClassVar[int]
    KEPT_ID_FIELD_NUMBER: _ClassVar[int]
    CHANGES_TOTAL_FIELD_NUMBER: _ClassVar[int]
    tool: str
    outcome: str
    is_error: bool
    content: str
    structured_json: str
    exit_code: int
    stdout: str
    stderr: str
    truncated: bool
    duration_ms: float
    protections: _containers.ScalarMap[str, str]
    code: str
    files: _containers.RepeatedCompositeFieldContainer[ChangedFile]
    files_complete: bool
    attachments: _containers.RepeatedCompositeFieldContainer[Attachment]
    run_later: _containers.RepeatedScalarFieldContainer[str]
    writes: str
    changes: _containers.RepeatedCompositeFieldContainer[FileChange]
    conflicts: _containers.RepeatedCompositeFieldContainer[Conflict]
    kept_id: str
    changes_total: int
    def __init__(self, tool: _Optional[str] = ..., outcome: _Optional[str] = ..., is_error: bool = ..., content: _Optional[str] = ..., structured_json: _Optional[str] = ..., exit_code: _Optional[int] = ..., stdout: _Optional[str] = ..., stderr: _Optional[str] = ..., truncated: bool = ..., duration_ms: _Optional[float] = ..., protections: _Optional[_Mapping[str, str]] = ..., code: _Optional[str] = ..., files: _Optional[_Iterable[_Union[ChangedFile, _Mapping]]] = ..., files_complete: bool = ..., attachments: _Optional[_Iterable[_Union[Attachment, _Mapping]]] = ..., run_later: _Optional[_Iterable[str]] = ..., writes: _Optional[str] = ..., changes: _Optional[_Iterable[_Union[FileChange, _Mapping]]] = ..., conflicts: _Optional[_Iterable[_Union[Conflict, _Mapping]]] = ..., kept_id: _Optional[str] = ..., changes_total: _Optional[int] = ...) -> None: ...

class FileChange(_message.Message):
    __slots__ = ("path", "change", "size", "size_before", "old_path", "sha256", "mode", "mode_before", "executable")
    PATH_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    SIZE_BEFORE_FIELD_NUMBER: _ClassVar[int]
    OLD_PATH_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    MODE_BEFORE_FIELD_NUMBER: _ClassVar[int]
    EXECUTABLE_FIELD_NUMBER: _ClassVar[int]
    path: str
    change: str
    size: int
    size_before: int
    old_path: str
    sha256: str
    mode: int
    mode_before: int
    executable: bool
    def __init__(self, path: _Optional[str] = ..., change: _Optional[str] = ..., size: _Optional[int] = ..., size_before: _Optional[int] = ..., old_path: _Optional[str] = ..., sha256: _Optional[str] = ..., mode: _Optional[int] = ..., mode_before: _Optional[int] = ..., executable: bool = ...) -> None: ...

class Conflict(_message.Message):
    __slots__ = ("path", "reason")
    PATH_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    path: str
    reason: str
    def __init__(self, path: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class ChangedFile(_message.Message):
    __slots__ = ("path", "type", "size", "change")
    PATH_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    path: str
    type: str
    size: int
    change: str
    def __init__(self, path: _Optional[str] = ..., type: _Optional[str] = ..., size: _Optional[int] = ..., change: _Optional[str] = ...) -> None: ...

class Attachment(_message.Message):
    __slots__ = ("name", "type", "data")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: str
    data: bytes
    def __init__(self, name: _Optional[str] = ..., type: _Optional[str] = ..., data: _Optional[bytes] = ...) -> None: ...

class RunScriptRequest(_message.Message):
    __slots__ = ("session_id", "script", "timeout_seconds", "dry_run", "files", "call_id")
    class FilesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    SCRIPT_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    script: str
    timeout_seconds: float
    dry_run: bool
    files: _containers.ScalarMap[str, bytes]
    call_id: str
    def __init__(self, session_id: _Optional[str] = ..., script: _Optional[str] = ..., timeout_seconds: _Optional[float] = ..., dry_run: bool = ..., files: _Optional[_Mapping[str, bytes]] = ..., call_id: _Optional[str] = ...) -> None: ...

class RunScriptResponse(_message.Message):
    __slots__ = ("status", "stdout", "stderr", "exit_code", "result_json", "calls", "artifacts", "truncated", "duration_ms", "notes", "artifacts_left_out")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    STDOUT_FIELD_NUMBER: _ClassVar[int]
    STDERR_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    RESULT_JSON_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    ARTIFACTS_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    ARTIFACTS_LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    status: str
    stdout: str
    stderr: str
    exit_code: int
    result_json: str
    calls: _containers.RepeatedCompositeFieldContainer[ScriptCall]
    artifacts: _containers.RepeatedCompositeFieldContainer[Artifact]
    truncated: bool
    duration_ms: float
    notes: _containers.RepeatedScalarFieldContainer[str]
    artifacts_left_out: int
    def __init__(self, status: _Optional[str] = ..., stdout: _Optional[str] = ..., stderr: _Optional[str] = ..., exit_code: _Optional[int] = ..., result_json: _Optional[str] = ..., calls: _Optional[_Iterable[_Union[ScriptCall, _Mapping]]] = ..., artifacts: _Optional[_Iterable[_Union[Artifact, _Mapping]]] = ..., truncated: bool = ..., duration_ms: _Optional[float] = ..., notes: _Optional[_Iterable[str]] = ..., artifacts_left_out: _Optional[int] = ...) -> None: ...

class ScriptCall(_message.Message):
    __slots__ = ("seq", "tool", "params_json", "outcome", "duration_ms", "started_ms", "exit_code", "error")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    PARAMS_JSON_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    STARTED_MS_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    seq: int
    tool: str
    params_json: str
    outcome: str
    duration_ms: float
    started_ms: float
    exit_code: int
    error: str
    def __init__(self, seq: _Optional[int] = ..., tool: _Optional[str] = ..., params_json: _Optional[str] = ..., outcome: _Optional[str] = ..., duration_ms: _Optional[float] = ..., started_ms: _Optional[float] = ..., exit_code: _Optional[int] = ..., error: _Optional[str] = ...) -> None: ...

class Artifact(_message.Message):
    __slots__ = ("path", "data")
    PATH_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    path: str
    data: bytes
    def __init__(self, path: _Optional[str] = ..., data: _Optional[bytes] = ...) -> None: ...

class CancelRequest(_message.Message):
    __slots__ = ("session_id", "call_id")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    call_id: str
    def __init__(self, session_id: _Optional[str] = ..., call_id: _Optional[str] = ...) -> None: ...

class CancelResponse(_message.Message):
    __slots__ = ("cancelled",)
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    cancelled: bool
    def __init__(self, cancelled: bool = ...) -> None: ...

class ListChangesRequest(_message.Message):
    __slots__ = ("session_id",)
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    def __init__(self, session_id: _Optional[str] = ...) -> None: ...

class ListChangesResponse(_message.Message):
    __slots__ = ("calls",)
    CALLS_FIELD_NUMBER: _ClassVar[int]
    calls: _containers.RepeatedCompositeFieldContainer[KeptCall]
    def __init__(self, calls: _Optional[_Iterable[_Union[KeptCall, _Mapping]]] = ...) -> None: ...

class KeptCall(_message.Message):
    __slots__ = ("kept_id", "tool", "state", "started_ns", "total", "changes", "reverses")
    KEPT_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STARTED_NS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    REVERSES_FIELD_NUMBER: _ClassVar[int]
    kept_id: str
    tool: str
    state: str
    started_ns: int
    total: int
    changes: _containers.RepeatedCompositeFieldContainer[FileChange]
    reverses: str
    def __init__(self, kept_id: _Optional[str] = ..., tool: _Optional[str] = ..., state: _Optional[str] = ..., started_ns: _Optional[int] = ..., total: _Optional[int] = ..., changes: _Optional[_Iterable[_Union[FileChange, _Mapping]]] = ..., reverses: _Optional[str] = ...) -> None: ...

class DiffCallRequest(_message.Message):
    __slots__ = ("session_id", "kept_id", "path")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    KEPT_ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    kept_id: str
    path: str
    def __init__(self, session_id: _Optional[str] = ..., kept_id: _Optional[str] = ..., path: _Optional[str] = ...) -> None: ...

class DiffCallResponse(_message.Message):
    __slots__ = ("diff",)
    DIFF_FIELD_NUMBER: _ClassVar[int]
    diff: str
    def __init__(self, diff: _Optional[str] = ...) -> None: ...

class ApplyCallRequest(_message.Message):
    __slots__ = ("session_id", "kept_id", "paths", "earlier", "whole_session")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    KEPT_ID_FIELD_NUMBER: _ClassVar[int]
    PATHS_FIELD_NUMBER: _ClassVar[int]
    EARLIER_FIELD_NUMBER: _ClassVar[int]
    WHOLE_SESSION_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    kept_id: str
    paths: _containers.RepeatedScalarFieldContainer[str]
    earlier: bool
    whole_session: bool
    def __init__(self, session_id: _Optional[str] = ..., kept_id: _Optional[str] = ..., paths: _Optional[_Iterable[str]] = ..., earlier: bool = ..., whole_session: bool = ...) -> None: ...

class ApplyCallResponse(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: ToolResult
    def __init__(self, result: _Optional[_Union[ToolResult, _Mapping]] = ...) -> None: ...

class DiscardCallRequest(_message.Message):
    __slots__ = ("session_id", "kept_id", "whole_session")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    KEPT_ID_FIELD_NUMBER: _ClassVar[int]
    WHOLE_SESSION_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    kept_id: str
    whole_session: bool
    def __init__(self, session_id: _Optional[str] = ..., kept_id: _Optional[str] = ..., whole_session: bool = ...) -> None: ...

class DiscardCallResponse(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: ToolResult
    def __init__(self, result: _Optional[_Union[ToolResult, _Mapping]] = ...) -> None: ...

class UndoCallsRequest(_message.Message):
    __slots__ = ("session_id", "kept_id", "calls", "paths", "whole_session")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    KEPT_ID_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    PATHS_FIELD_NUMBER: _ClassVar[int]
    WHOLE_SESSION_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    kept_id: str
    calls: int
    paths: _containers.RepeatedScalarFieldContainer[str]
    whole_session: bool
    def __init__(self, session_id: _Optional[str] = ..., kept_id: _Optional[str] = ..., calls: _Optional[int] = ..., paths: _Optional[_Iterable[str]] = ..., whole_session: bool = ...) -> None: ...

class UndoCallsResponse(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: ToolResult
    def __init__(self, result: _Optional[_Union[ToolResult, _Mapping]] = ...) -> None: ...

class StartToolRequest(_message.Message):
    __slots__ = ("session_id", "tool", "args_json", "stdin", "timeout_seconds", "retries", "writes", "request_id")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    ARGS_JSON_FIELD_NUMBER: _ClassVar[int]
    STDIN_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    RETRIES_FIELD_NUMBER: _ClassVar[int]
    WRITES_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    tool: str
    args_json: str
    stdin: bytes
    timeout_seconds: float
    retries: int
    writes: str
    request_id: str
    def __init__(self, session_id: _Optional[str] = ..., tool: _Optional[str] = ..., args_json: _Optional[str] = ..., stdin: _Optional[bytes] = ..., timeout_seconds: _Optional[float] = ..., retries: _Optional[int] = ..., writes: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class StartToolResponse(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: Job
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ...) -> None: ...

class Job(_message.Message):
    __slots__ = ("job_id", "tool", "session_id", "state", "created_ns", "started_ns", "ended_ns", "progress", "approval", "ends_with_server")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CREATED_NS_FIELD_NUMBER: _ClassVar[int]
    STARTED_NS_FIELD_NUMBER: _ClassVar[int]
    ENDED_NS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    APPROVAL_FIELD_NUMBER: _ClassVar[int]
    ENDS_WITH_SERVER_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    tool: str
    session_id: str
    state: str
    created_ns: int
    started_ns: int
    ended_ns: int
    progress: Progress
    approval: Approval
    ends_with_server: bool
    def __init__(self, job_id: _Optional[str] = ..., tool: _Optional[str] = ..., session_id: _Optional[str] = ..., state: _Optional[str] = ..., created_ns: _Optional[int] = ..., started_ns: _Optional[int] = ..., ended_ns: _Optional[int] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., approval: _Optional[_Union[Approval, _Mapping]] = ..., ends_with_server: bool = ...) -> None: ...

class ListJobsRequest(_message.Message):
    __slots__ = ("session_id", "states", "limit")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    states: _containers.RepeatedScalarFieldContainer[str]
    limit: int
    def __init__(self, session_id: _Optional[str] = ..., states: _Optional[_Iterable[str]] = ..., limit: _Optional[int] = ...) -> None: ...

class ListJobsResponse(_message.Message):
    __slots__ = ("jobs",)
    JOBS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[Job]
    def __init__(self, jobs: _Optional[_Iterable[_Union[Job, _Mapping]]] = ...) -> None: ...

class GetJobRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class GetJobResponse(_message.Message):
    __slots__ = ("job", "result", "error")
    JOB_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    job: Job
    result: ToolResult
    error: JobError
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ..., result: _Optional[_Union[ToolResult, _Mapping]] = ..., error: _Optional[_Union[JobError, _Mapping]] = ...) -> None: ...

class JobError(_message.Message):
    __slots__ = ("code", "message", "hint")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    HINT_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    hint: str
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ..., hint: _Optional[str] = ...) -> None: ...

class WaitJobRequest(_message.Message):
    __slots__ = ("job_id", "offset", "seconds")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    offset: int
    seconds: float
    def __init__(self, job_id: _Optional[str] = ..., offset: _Optional[int] = ..., seconds: _Optional[float] = ...) -> None: ...

class WaitJobResponse(_message.Message):
    __slots__ = ("job", "output", "progress", "result")
    JOB_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    job: Job
    output: JobOutput
    progress: Progress
    result: ToolResult
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ..., output: _Optional[_Union[JobOutput, _Mapping]] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., result: _Optional[_Union[ToolResult, _Mapping]] = ...) -> None: ...

class JobOutput(_message.Message):
    __slots__ = ("data", "next_offset", "left_out")
    DATA_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    next_offset: int
    left_out: int
    def __init__(self, data: _Optional[bytes] = ..., next_offset: _Optional[int] = ..., left_out: _Optional[int] = ...) -> None: ...

class CancelJobRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class CancelJobResponse(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: Job
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ...) -> None: ...

class ListApprovalsRequest(_message.Message):
    __slots__ = ("session_id",)
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    def __init__(self, session_id: _Optional[str] = ...) -> None: ...

class ListApprovalsResponse(_message.Message):
    __slots__ = ("approvals",)
    APPROVALS_FIELD_NUMBER: _ClassVar[int]
    approvals: _containers.RepeatedCompositeFieldContainer[Approval]
    def __init__(self, approvals: _Optional[_Iterable[_Union[Approval, _Mapping]]] = ...) -> None: ...

class Approval(_message.Message):
    __slots__ = ("approval_id", "job_id", "tool", "skill", "session_id", "runs", "arguments_json", "needs", "reasons", "digest", "asked_ns", "until_ns", "state", "answered_by", "changes", "diff")
    APPROVAL_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    SKILL_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    NEEDS_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    ASKED_NS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_NS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_BY_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    DIFF_FIELD_NUMBER: _ClassVar[int]
    approval_id: str
    job_id: str
    tool: str
    skill: str
    session_id: str
    runs: str
    arguments_json: str
    needs: _containers.RepeatedScalarFieldContainer[str]
    reasons: _containers.RepeatedScalarFieldContainer[str]
    digest: str
    asked_ns: int
    until_ns: int
    state: str
    answered_by: str
    changes: _containers.RepeatedCompositeFieldContainer[FileChange]
    diff: str
    def __init__(self, approval_id: _Optional[str] = ..., job_id: _Optional[str] = ..., tool: _Optional[str] = ..., skill: _Optional[str] = ..., session_id: _Optional[str] = ..., runs: _Optional[str] = ..., arguments_json: _Optional[str] = ..., needs: _Optional[_Iterable[str]] = ..., reasons: _Optional[_Iterable[str]] = ..., digest: _Optional[str] = ..., asked_ns: _Optional[int] = ..., until_ns: _Optional[int] = ..., state: _Optional[str] = ..., answered_by: _Optional[str] = ..., changes: _Optional[_Iterable[_Union[FileChange, _Mapping]]] = ..., diff: _Optional[str] = ...) -> None: ...

class AnswerRequest(_message.Message):
    __slots__ = ("approval_id", "approve", "remember", "reason")
    APPROVAL_ID_FIELD_NUMBER: _ClassVar[int]
    APPROVE_FIELD_NUMBER: _ClassVar[int]
    REMEMBER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    approval_id: str
    approve: bool
    remember: str
    reason: str
    def __init__(self, approval_id: _Optional[str] = ..., approve: bool = ..., remember: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class AnswerResponse(_message.Message):
    __slots__ = ("approval",)
    APPROVAL_FIELD_NUMBER: _ClassVar[int]
    approval: Approval
    def __init__(self, approval: _Optional[_Union[Approval, _Mapping]] = ...) -> None: ...
