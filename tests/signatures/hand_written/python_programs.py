"""Python programs that read their command line by hand, in the ways people do.

Each prints, as JSON, what it took for each argument, under the name by which it is shown.
"""

BY_POSITION = {
    "neutral": """
import sys, json
class Reader:
    def __init__(self, path): self.path = path
reader = Reader(sys.argv[1])
name = sys.argv[2]
print(json.dumps({"arg1": reader.path, "name": name}))
""",
    "named by its usage": """
import sys, json
if len(sys.argv) != 2:
    print("Usage: count.py <report>")
    sys.exit(1)
with_text = str.upper(sys.argv[1])
print(json.dumps({"report": sys.argv[1]}))
""",
    "defaults": """
import sys, json
source = sys.argv[1] if len(sys.argv) > 1 else "."
depth = int(sys.argv[2]) if len(sys.argv) > 2 else 3
print(json.dumps({"source": source, "depth": depth}))
""",
    "optional ones": """
import sys, json
from pathlib import Path
def main():
    if len(sys.argv) < 2:
        print("Usage: x.py SOURCE [TARGET] [NOTE]")
        return 1
    source = sys.argv[1]
    target = sys.argv[2] if len(sys.argv) > 2 else None
    note = sys.argv[3] if len(sys.argv) > 3 else None
    print(json.dumps({"source": source, "target": target, "note": note}))
    return 0
if __name__ == "__main__":
    sys.exit(main())
""",
    "an index error is caught": """
import sys, json
try:
    place = sys.argv[1]
except IndexError:
    place = "here"
print(json.dumps({"place": place}))
""",
    "unpacked": """
import sys, json
left, right = sys.argv[1:]
print(json.dumps({"left": left, "right": right}))
""",
    "given to main": """
import sys, json
def main(argv=None):
    argv = sys.argv[1:] if argv is None else argv
    if not argv:
        raise SystemExit("nothing to do")
    topic = argv[0]
    print(json.dumps({"topic": topic}))
main()
""",
    "joined": """
import sys, json
question = " ".join(sys.argv[1:])
if not question:
    sys.exit("ask something")
print(json.dumps({"question": question}))
""",
    "a word that is always the same": """
import sys, json
if len(sys.argv) < 4 or sys.argv[2] != "--to":
    print("Usage: x.py <name> --to <folder>")
    sys.exit(1)
name = sys.argv[1]
folder = sys.argv[3]
print(json.dumps({"name": name, "folder": folder}))
""",
    "does its work without words, too": """
import sys, json
name = "nobody"
if len(sys.argv) < 2:
    print(json.dumps({"name": name}))
    sys.exit(0)
name = sys.argv[1]
print(json.dumps({"name": name}))
""",
}

BY_FLAGS = {
    "while": """
import sys, json
out, verbose, size = "a", False, None
args = sys.argv[1:]
i = 0
while i < len(args):
    if args[i] == "--out":
        out = args[i + 1]
        i += 2
    elif args[i] in ("-v", "--verbose"):
        verbose = True
        i += 1
    elif args[i] == "--size" and i + 1 < len(args):
        size = int(args[i + 1])
        i += 2
    else:
        print("unknown", args[i], file=sys.stderr)
        sys.exit(2)
print(json.dumps({"out": out, "verbose": verbose, "size": size}))
""",
    "enumerate": """
import sys, json
key = None
plain = False
for i, arg in enumerate(sys.argv):
    if arg == "--key" and i + 1 < len(sys.argv):
        key = sys.argv[i + 1]
    elif arg == "--plain":
        plain = True
print(json.dumps({"key": key, "plain": plain}))
""",
    "in": """
import sys, json
as_json = "--json" in sys.argv
quiet = "-q" in sys.argv or "--quiet" in sys.argv
print(json.dumps({"json": as_json, "quiet": quiet}))
""",
    "index": """
import sys, json
name = "x"
if "--name" in sys.argv:
    name = sys.argv[sys.argv.index("--name") + 1]
where = None
if "--where" in sys.argv:
    at = sys.argv.index("--where")
    if at + 1 < len(sys.argv):
        where = sys.argv[at + 1]
print(json.dumps({"name": name, "where": where}))
""",
    "next": """
import sys, json
found = {"host": "localhost", "port": None, "tls": False}
words = iter(sys.argv[1:])
for word in words:
    if word == "--host":
        found["host"] = next(words)
    elif word == "--port":
        found["port"] = next(words)
    elif word == "--tls":
        found["tls"] = True
print(json.dumps(found))
""",
    "pop": """
import sys, json
args = sys.argv[1:]
out, flags, rest = None, False, []
while args:
    a = args.pop(0)
    if a == "-o":
        out = args.pop(0)
    elif a == "--flags":
        flags = True
    else:
        rest.append(a)
print(json.dumps({"o": out, "flags": flags, "rest": rest}))
""",
    "joined values": """
import sys, json
mode, limit = "fast", None
for arg in sys.argv[1:]:
    if arg.startswith("--mode="):
        mode = arg.split("=", 1)[1]
    elif arg.startswith("--limit="):
        limit = arg[len("--limit="):]
print(json.dumps({"mode": mode, "limit": limit}))
""",
    "first by position, then looked up": """
import sys, json
if len(sys.argv) < 2:
    print("Usage: audit.py <path> [--json]")
    sys.exit(1)
path = sys.argv[1]
is_json = "--json" in sys.argv
print(json.dumps({"path": path, "json": is_json}))
""",
    "optional by position, then flags": """
import sys, json
title = sys.argv[1] if len(sys.argv) > 1 else None
draft = "--draft" in sys.argv
print(json.dumps({"title": title, "draft": draft}))
""",
    "selected": """
import sys, json
names = [a for a in sys.argv[1:] if not a.startswith("-")]
if not names:
    sys.exit("names?")
print(json.dumps({"names": names, "deep": "--deep" in sys.argv}))
""",
    "the first that is no flag": """
import sys, json
target = next((a for a in sys.argv[1:] if not a.startswith("--")), None)
if target is None:
    sys.exit(1)
print(json.dumps({"target": target, "fix": any(a == "--fix" for a in sys.argv[1:])}))
""",
    "a value and others": """
import sys, json
def parse(argv):
    options = {"lang": "en", "paths": [], "tag": []}
    i = 0
    while i < len(argv):
        arg = argv[i]
        if arg == "--lang":
            i += 1
            options["lang"] = argv[i]
        elif arg == "--tag":
            options["tag"].append(argv[i + 1])
            i += 1
        elif arg.startswith("-"):
            sys.exit(f"unknown option {arg}")
        else:
            options["paths"].append(arg)
        i += 1
    return options
print(json.dumps(parse(sys.argv[1:])))
""",
}

DECLINED = {
    "commands": """
import sys
if sys.argv[1] == "add":
    print(sys.argv[2])
""",
    "a gap": """
import sys
print(sys.argv[2])
""",
    "a flag at one place": """
import sys
if sys.argv[1] == "--all":
    print("all")
""",
    "state": """
import sys
skip = False
name = None
for arg in sys.argv[1:]:
    if skip:
        name = arg
        skip = False
    elif arg == "--name":
        skip = True
print(name)
""",
    "only with a later one": """
import sys
if len(sys.argv) > 2:
    a = sys.argv[1]
    b = sys.argv[2]
    print(a, b)
""",
    "changed": """
import sys
sys.argv.remove("--x")
print(sys.argv[1])
""",
    "removed": """
import sys
del sys.argv[1]
print(sys.argv[1])
""",
    "usage knows more": """
import sys
# Usage: x.py <a> <b>
a = sys.argv[1]
print(a)
""",
    "all of them": """
import sys
import subprocess
subprocess.run(["echo", *sys.argv[1:]])
""",
    "help knows more": """
import sys
HELP = '''Options:
  -d, --deep      go deeper
  --wide N        go wider
'''
if "--help" in sys.argv:
    print(HELP)
print("--deep" in sys.argv)
""",
}
