"""Arguments too large for an environment, in a file of the workspace while the call runs."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kitbag.backends.conventions import Delivery, variables
from kitbag.execution.saved_output import save_output


@contextmanager
def argument_file(workspace: Path, delivery: Delivery) -> Iterator[Path | None]:
    """Write the arguments into a file if no variable can hold them; remove it afterwards."""
    if "TOOL_ARGS" in variables(delivery, {}):
        yield None
        return
    saved = save_output(workspace, "arguments.json")
    if saved is None:
        yield None
        return
    saved.write(delivery.arguments.encode())
    path = saved.close()
    try:
        yield path
    finally:
        with suppress(OSError):
            path.unlink()
