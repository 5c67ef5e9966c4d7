"""ExecutionLimits: how much one script may use before it is stopped."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from skillpouch.limits import SCRIPT_SECONDS
from skillpouch.shell.worker_pool import DEFAULT_MEMORY_BYTES

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionLimits:
    """Bounds of one script; what it printed until then is kept.

    `timeout_seconds` does not count while somebody is asked for an approval. `memory_bytes` is what
    the worker may use, `shell_bytes` what variables and files of the script may take. Of each
    output `output_bytes` are kept. `budgets` are calls per tool: `{"delete_user": 5}`. How deep
    functions (16) and substitutions (32) may nest is the engine's own limit.
    """

    max_commands: int = 10_000
    max_loop_iterations: int = 10_000
    timeout_seconds: float = SCRIPT_SECONDS
    memory_bytes: int = DEFAULT_MEMORY_BYTES
    shell_bytes: int = 32 * _MIB
    output_bytes: int = _MIB
    max_tool_calls: int = 1_000
    max_parallel: int = 64
    budgets: Mapping[str, int] = field(default_factory=dict)

    def for_engine(self) -> dict[str, int]:
        """Return those that the engine itself keeps."""
        return {
            "max_commands": self.max_commands,
            "max_loop_iterations": self.max_loop_iterations,
            "max_memory": self.shell_bytes,
        }
