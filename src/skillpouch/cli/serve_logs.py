"""What servers write to standard error: a line for people, or one JSON object for programs."""

import json
import logging
import sys
import time
from typing import Literal

LogFormat = Literal["text", "json"]

_QUIET = (
    "mcp",
    "grpc",
    "uvicorn",
    "httpx2",
    "anyio",
    "asyncio",
)  # theirs only when something is wrong


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["trace"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False)


def log_to_stderr(shape: LogFormat) -> None:
    """Send the log of this process to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    plain = logging.Formatter("skillpouch: %(message)s")
    handler.setFormatter(_JsonLines() if shape == "json" else plain)
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.ERROR)
