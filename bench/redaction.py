"""What redaction costs: 64 MiB with 50 secrets, of several kinds, and one short answer."""

import base64
import os
import random
import secrets
import statistics
import time
from collections.abc import Callable

from skillpouch.secrets.redaction import Redactor

SIZE = 64 * 1024 * 1024
LINE = b"2026-11-01T12:00:00Z INFO worker 7 finished job 1834 in 12.5 ms, 3 files changed\n"


def main() -> None:
    random.seed(1)
    values = {f"KEY_{n}": secrets.token_urlsafe(random.choice([6, 16, 32, 64])) for n in range(50)}
    started = time.perf_counter()
    redactor = Redactor(values)
    print(f"{'made for 50 secrets':<32} {(time.perf_counter() - started) * 1e3:8.1f} ms")
    first = next(iter(values.values())).encode()
    texts = {
        "log lines": (LINE * (SIZE // len(LINE) + 1))[:SIZE],
        "log lines, a secret in each": (LINE[:-1] + first + b"\n") * (SIZE // (len(LINE) + 9)),
        "base64, broken into lines": base64.encodebytes(os.urandom(SIZE * 3 // 4)),
        "one line of base64": base64.b64encode(os.urandom(SIZE * 3 // 4)),
        "one letter": b"a" * SIZE,
    }
    for name, data in texts.items():
        measure(f"whole: {name}", len(data), lambda data=data: redactor.data(data))
        measure(f"stream: {name}", len(data), lambda data=data: stream(redactor, data))
    short = LINE.decode() * 3
    times = []
    for _ in range(2000):
        started = time.perf_counter()
        redactor.text(short)
        times.append(time.perf_counter() - started)
    print(f"{'three lines of text':<32} {statistics.median(times) * 1e6:8.1f} µs (median)")


def stream(redactor: Redactor, data: bytes) -> None:
    pieces = redactor.stream()
    for at in range(0, len(data), 65536):
        pieces.feed(data[at : at + 65536])
    pieces.close()


def measure(name: str, size: int, run: Callable[[], object]) -> None:
    started = time.perf_counter()
    run()
    seconds = time.perf_counter() - started
    print(f"{name:<40} {seconds:8.2f} s {size / seconds / 1e6:10.0f} MB/s")


if __name__ == "__main__":
    main()
