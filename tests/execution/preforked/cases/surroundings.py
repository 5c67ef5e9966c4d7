"""What a program sees around it: variables, folders, limits, time, descriptors."""

CASES = {
    "environ": """
import os
print(sorted(os.environ.items()))
""",
    "environ_order": """
import os
print(sorted(os.environb.items()), os.environ.get("SKILLPOUCH_WARMUP_0"), len(os.environ))
""",
    "environ_child": """
import os
os.environ["ZZ"] = "1"
os.system("echo $ZZ $K; env | sort | head -3")
""",
    "environ_of_c": """
import ctypes, os
getenv = ctypes.CDLL(None).getenv
getenv.restype = ctypes.c_char_p
print(getenv(b"K"), getenv(b"PYTHONPATH"), getenv(b"TZ"), os.getenv("K"))
""",
    "environ_all_of_a_child": """
import subprocess
print(sorted(subprocess.run(["/usr/bin/env"], capture_output=True).stdout.splitlines()))
""",
    "tz": """
import time
print(time.strftime("%H %Z", time.gmtime(0)), time.localtime(0).tm_hour, time.tzname)
print(time.timezone, time.altzone, time.daylight)
""",
    "tz_datetime": """
import datetime
print(datetime.datetime.fromtimestamp(0).astimezone())
""",
    "tz_changed": """
import os, time
os.environ["TZ"] = "Asia/Tokyo"
time.tzset()
print(time.tzname)
""",
    "locale": """
import locale
print(locale.getlocale(), locale.getpreferredencoding(False), locale.setlocale(locale.LC_CTYPE))
print([locale.setlocale(getattr(locale, n)) for n in dir(locale) if n.startswith("LC_")])
""",
    "cwd": """
import os
print(os.getcwd())
""",
    "cwd_changed": """
import os
os.mkdir("sub")
os.chdir("sub")
open("made", "w").close()
print(os.path.basename(os.getcwd()))
""",
    "umask": """
import os
print(oct(os.umask(0)))
""",
    "file_modes": """
import os
open("x", "w").close()
os.mkdir("d")
print(oct(os.stat("x").st_mode), oct(os.stat("d").st_mode))
""",
    "resource_x": """
import resource
print(resource.getrlimit(resource.RLIMIT_STACK))
""",
    "rlimits": """
import resource
names = [n for n in dir(resource) if n.startswith("RLIMIT_")]
print({n: resource.getrlimit(getattr(resource, n)) for n in names})
""",
    "descriptors": """
import os
print(sorted(os.listdir("/proc/self/fd"), key=int))
print([os.get_inheritable(n) for n in range(3)], [os.get_blocking(n) for n in range(3)])
""",
    "next_descriptor": """
f = open("/dev/null")
print(f.fileno())
""",
    "identity": """
import getpass, os
print(os.getuid(), os.getgid(), os.geteuid(), os.getgroups(), os.uname().nodename)
print(os.getpriority(os.PRIO_PROCESS, 0), len(os.sched_getaffinity(0)), os.cpu_count())
print(os.path.expanduser("~"), os.ctermid(), os.sched_getscheduler(0))
""",
    "process_state": """
import re
text = open("/proc/self/status").read()
for name in ("Name", "Umask", "NoNewPrivs", "Seccomp", "CapEff", "CapPrm", "CapBnd", "Threads"):
    print(re.search(f"^{name}:.*", text, re.M)[0])
""",
    "process_time_starts_low": """
import resource, time
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print(time.process_time() < 5, usage.ru_utime, usage.ru_stime)
""",
    "parent": """
import os
print(os.getppid())
""",
    "command_line_of_the_kernel": """
print(open("/proc/self/cmdline").read().split("\\0"))
""",
    "variables_of_the_kernel": """
print(sorted(open("/proc/self/environ").read().split("\\0")))
""",
    "tempfile": """
import os, tempfile
f = tempfile.NamedTemporaryFile(dir=".")
print(os.path.exists(f.name), tempfile.gettempdir())
""",
    "temporary_is_empty": """
import os, tempfile
print(os.listdir("/tmp") == [] or "unconfined" , tempfile.gettempprefix())
""",
    "modules_file_lookup": """
import importlib.util, os
print(importlib.util.find_spec("sibling").origin == os.path.abspath(
    os.path.join(os.path.dirname(__file__), "sibling.py")))
print(importlib.util.find_spec("skillpouch") is None or "installed")
""",
    "no_trace_of_the_nursery": """
import sys
print([name for name in sys.modules if "skillpouch" in name or "prefork server" in name])
print([key for key in globals() if "ompiled" in key.lower()])
""",
    "site_and_sysconfig": """
import site, sysconfig
print(site.ENABLE_USER_SITE, sysconfig.get_path("purelib"), site.getsitepackages())
""",
    "terminal_size": """
import os, shutil
print(shutil.get_terminal_size())
try:
    os.get_terminal_size()
except OSError as error:
    print(error)
""",
    "hostname_lookup": """
import socket
print(socket.gethostname())
""",
}
