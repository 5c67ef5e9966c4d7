"""A server is told to stop many times in a row, by signals that any of its threads may take."""

import os
import signal
import subprocess
import sys

import pytest

from tests.servers.processes import signal_other_thread

pytestmark = pytest.mark.slow

# Raise it to try more often.
ROUNDS = int(os.environ.get("SKILLPOUCH_SIGNAL_ROUNDS", "10"))
SERVES = """
import sys, threading
from skillpouch.servers.lifecycle import serve_until_signalled

def work():
    while True:
        sum(range(1000))

async def serve(stop):
    print("ready", flush=True)
    await stop.asked.wait()
    print("asked", flush=True)

for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
for _ in range(int(sys.argv[1])):
    serve_until_signalled(serve)
"""


@pytest.mark.promise("stop-1")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_every_signal_stops_a_server(number: signal.Signals) -> None:
    words = [sys.executable, "-c", SERVES, str(ROUNDS)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        heard = []
        for turn in range(ROUNDS):
            assert server.stdout.readline() == "ready\n"
            if turn % 2:
                signal_other_thread(server.pid, number)
            else:
                server.send_signal(number)
            heard.append(server.stdout.readline())

    assert heard == ["asked\n"] * ROUNDS
    assert server.returncode == 0
