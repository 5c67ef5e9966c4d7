"""Does once what every call does, so that nothing is built or copied for the first time in one."""

from __future__ import annotations

import io
import marshal
import os
import sys

from skillpouch.execution.nursery.c_output import flush_c_output

_PROGRAM = """
def work(word="x"):
    return {"ok": [word, 1, 1.5, True, None]}
class Thing:
    def __init__(self): self.found = [work() for _ in range(2)]
try:
    text = "".join(sorted("%s" % key for key in Thing().found[0]))
    raise ValueError(text)
except ValueError as error:
    text = str(error)
"""


def rehearse() -> None:
    try:
        _rehearse()
    except BaseException:
        return  # an import has changed what is tried here: the call will see to it


def _rehearse() -> None:
    # The first compile() of a process builds the classes of the syntax tree: two milliseconds.
    exec(compile(_PROGRAM, "<rehearsal>", "exec"), {"__name__": "rehearsal"})
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    stream.write("x")
    stream.flush()
    with open("/dev/null", "rb") as nothing:
        nothing.read()
    for number in range(12):
        os.environ["SKILLPOUCH_REHEARSAL_%d" % number] = "1"
    for number in range(12):
        os.environ.pop("SKILLPOUCH_REHEARSAL_%d" % number)
    flush_c_output()
    marshal.loads(marshal.dumps({"a": [1, "b"]}))  # noqa: S302 - our own
    json = sys.modules.get("json")
    if json is not None:
        text = json.dumps({"a": [1, "b", None, True, 1.5]}, allow_nan=False)
        json.loads(text.encode())
