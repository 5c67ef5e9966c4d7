"""Standard streams, and files that are left open."""

CASES = {
    "stdin_text": """
import sys
print(repr(sys.stdin.read()))
""",
    "stdin_input": """
print(repr(input()))
""",
    "stdin_prompt": """
print(repr(input("name? ")))
""",
    "stdin_bin": """
import sys
print(sys.stdin.buffer.read())
""",
    "stdin_fd": """
import os
print(os.read(0, 100))
""",
    "stdin_iter": """
import sys
for line in sys.stdin:
    print(repr(line))
""",
    "stdin_eof": """
import sys
sys.stdin.read()
input()
""",
    "stdin_reopened": """
import sys
with open(0, encoding="latin-1", closefd=False) as again:
    print(again.read())
print(sys.stdin.fileno())
""",
    "stdin_reconfigured": """
import sys
sys.stdin.reconfigure(encoding="latin-1", errors="replace")
print(sys.stdin.encoding, sys.stdin.readline())
""",
    "stdin_select": """
import select, sys
print([f.fileno() for f in select.select([sys.stdin], [], [], 1)[0]])
""",
    "stdin_kind": """
import os, stat, sys
print([stat.S_IFMT(os.fstat(n).st_mode) for n in range(3)], sys.stdin.seekable())
""",
    "input_eof": """
import sys
sys.stdin.close()
print("ok")
""",
    "fileinput": """
import fileinput, sys
sys.argv[1:] = []
for line in fileinput.input():
    print(fileinput.filename(), fileinput.lineno(), line, end="")
""",
    "stdout_bin": """
import sys
sys.stdout.buffer.write(b"\\xff\\x00raw\\n")
""",
    "stdout_mixed": """
import os, sys
sys.stdout.write("text ")
sys.stdout.flush()
os.write(1, b"raw ")
sys.stdout.buffer.write(b"buffer\\n")
print("end")
""",
    "print_unicode": """
print("é€😀")
""",
    "surrogate": """
import sys
sys.stdout.write("\\udcff")
""",
    "surrogate_on_stderr": """
import sys
sys.stderr.write("\\udcff\\n")
""",
    "stream_props": """
import sys
for s in (sys.stdin, sys.stdout, sys.stderr):
    print(s.name, s.mode, s.encoding, s.errors, s.line_buffering, s.isatty(), s.fileno())
    print(s.seekable(), s.newlines, s.write_through, s.readable(), s.writable(), s.closed)
    print(repr(s), repr(s.buffer), repr(s.buffer.raw))
print(sys.stdin is sys.__stdin__, sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__)
""",
    "closed_stdout_flush": """
import os
os.close(1)
print("x")
""",
    "stdout_closed_by_python": """
import sys
sys.stdout.close()
print("x")
""",
    "stdout_none": """
import sys
sys.stdout = None
print("x")
""",
    "stderr_closed": """
import sys
sys.stderr.close()
raise ValueError("unseen")
""",
    "stderr_none": """
import sys
sys.stderr = None
raise ValueError("unseen")
""",
    "stdout_reassign": """
import io, sys
sys.stdout = io.StringIO()
print("x")
sys.__stdout__.write("y\\n")
""",
    "stdout_own_class": """
import sys
class Upper:
    def write(self, text):
        sys.__stdout__.write(text.upper())
    def flush(self):
        sys.__stdout__.write("<flushed>")
sys.stdout = Upper()
print("x")
""",
    "stdout_failing_flush": """
import sys
class Failing:
    closed = False
    def write(self, text):
        pass
    def flush(self):
        raise OSError("cannot flush")
sys.stdout = Failing()
print("x")
""",
    "stdout_tee": """
import sys
class Tee:
    def __init__(self, *streams):
        self.streams = streams
    def write(self, text):
        for s in self.streams:
            s.write(text)
    def flush(self):
        for s in self.streams:
            s.flush()
sys.stdout = Tee(sys.stdout, open("log.txt", "w"))
print("both")
""",
    "stdout_reconfigured": """
import sys
sys.stdout.reconfigure(encoding="latin-1", errors="replace", line_buffering=True)
print("é€")
""",
    "stdout_detached": """
import sys
b = sys.stdout.detach()
b.write(b"detached\\n")
b.flush()
""",
    "stdout_rewrapped": """
import io, sys
sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-16")
print("wide")
""",
    "stdout_to_broken_pipe": """
import os
r, w = os.pipe()
os.close(r)
os.dup2(w, 1)
print("nobody reads this")
""",
    "stdout_to_full": """
import os
os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
print("no room")
""",
    "stderr_order": """
import sys
print("1", file=sys.stderr)
print("2", file=sys.stderr)
sys.stderr.write("no newline")
""",
    "huge_output": """
import sys
for number in range(200_000):
    print(number, "x" * 20)
print("done", file=sys.stderr)
""",
    "unclosed_file": """
f = open("out.txt", "w")
f.write("data not closed")
""",
    "read_unclosed": """
f = open("out.txt", "w")
f.write("data not closed")
print(repr(open("out.txt").read()))
""",
    "unclosed_binary": """
f = open("out.bin", "wb")
f.write(b"\\x00" * 10)
g = open("both.bin", "w+b")
g.write(b"12345")
""",
    "unclosed_in_function": """
import sys
def work():
    f = open("out.txt", "w")
    f.write("local")
    sys.exit(3)
work()
""",
    "unclosed_in_sibling": """
import sibling
sibling.f = open("out.txt", "w")
sibling.f.write("held by a module")
""",
    "unclosed_in_installed_module": """
import json
json.mine = open("out.txt", "w")
json.mine.write("held by the library")
""",
    "unclosed_gzip": """
import gzip
f = gzip.open("out.gz", "wb", mtime=0) if False else gzip.GzipFile("out.gz", "wb", mtime=0)
f.write(b"packed")
""",
    "unclosed_csv": """
import csv
w = csv.writer(open("out.csv", "w", newline=""))
w.writerow(["a", 1])
""",
    "unclosed_zip": """
import zipfile
z = zipfile.ZipFile("out.zip", "w")
z.writestr(zipfile.ZipInfo("x.txt"), "text")
""",
    "temporary_directory_left": """
import os, tempfile
t = tempfile.TemporaryDirectory(dir=".")
open(os.path.join(t.name, "x"), "w").close()
print(len(os.listdir(".")))
""",
    "logging": """
import logging
logging.basicConfig(level=20)
logging.info("hello")
""",
    "logging_file_at_exit": """
import logging, logging.handlers
target = logging.FileHandler("app.log")
memory = logging.handlers.MemoryHandler(100, target=target)
logging.getLogger().addHandler(memory)
logging.warning("kept in memory until the end")
""",
    "logging_caller": """
import logging
logging.basicConfig(format="%(filename)s:%(lineno)d %(funcName)s %(processName)s %(message)s")
logging.warning("here")
logging.warning("above", stacklevel=2)
""",
    "logging_relative_time": """
import logging
logging.basicConfig(format="%(relativeCreated)d")
record = logging.makeLogRecord({})
print(0 <= record.relativeCreated < 5000)
""",
}
