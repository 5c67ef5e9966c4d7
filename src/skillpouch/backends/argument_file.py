"""Arguments too large for an environment, in a file while the call runs."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from skillpouch.backends.argument_variables import fits_variable
from skillpouch.backends.conventions import Delivery


@contextmanager
def argument_file(folder: Path, delivery: Delivery) -> Iterator[Path | None]:
    """Write the arguments into a file if no variable can hold them; remove it afterwards."""
    if fits_variable(delivery.arguments):
        yield None
        return
    fd, name = tempfile.mkstemp(suffix=".json", dir=folder)
    path = Path(name)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(delivery.arguments.encode())
        yield path
    finally:
        with suppress(OSError):
            path.unlink()
