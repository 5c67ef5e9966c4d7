"""Runs programs, each with many command lines, and prints what each printed, or that it refused."""

import contextlib
import io
import json
import sys


def run(text: str, words: list[str]) -> str | None:
    printed = io.StringIO()
    sys.argv = ["program.py", *words]
    code: object = 0
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        try:
            exec(compile(text, "program.py", "exec"), {"__name__": "__main__"})
        except SystemExit as left:
            code = left.code
        except Exception:  # noqa: BLE001 - any failure is a refusal
            code = 1
    return None if code else printed.getvalue()


if __name__ == "__main__":
    jobs = json.load(sys.stdin)
    made = [[run(job["text"], words) for words in job["calls"]] for job in jobs]
    sys.__stdout__.write(json.dumps(made))  # type: ignore[union-attr]  # it has one
