"""What is said is nobody's to log: no argument and no secret is there, however much is logged."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from tests.malicious.conftest import MakeManager
from tests.net.http.conftest import LOCAL, Serve, serve
from tests.net.http.servers import reply

pytestmark = pytest.mark.slow

__all__ = ["serve"]
SAID = "q7Xw-said-by-somebody-0Zt"
KEY = "k3Yb-key-of-the-user-9Vm"


@pytest.mark.promise("call-4")
def test_no_argument_and_no_secret_is_in_a_log(
    serve: Serve,
    manager_of: MakeManager,
    workspace: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("API_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    url = f"{serve(reply('fine')).url}/${{a}}?key=${{env:API_KEY}}"
    headers = {"X-Said": "${a}", "Authorization": "Bearer ${env:API_KEY}"}
    backends: dict[str, dict[str, Any]] = {
        "words": {"type": "binary", "path": "echo", "args_template": "${a}"},
        "text": {"type": "script", "interpreter": "sh", "script": "cat >/dev/null"},
        "ask": {"type": "http", "method": "GET", "url": url, "headers": headers},
        "send": {"type": "http", "url": url, "body": {"a": "${a}", "key": "${env:API_KEY}"}},
    }
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    entries = [
        {"name": name, "description": "d", "backend": backend, "parameters": schema}
        for name, backend in backends.items()
    ]
    files = {"scripts/tell.py": "def main(a: str) -> str:\n    return 'told'\n"}
    manager = manager_of(files, f"tools: {json.dumps(entries)}\n", policy=LOCAL, builtins=True)

    for name in (*backends, "bad.tell"):
        assert manager.call(name, {"a": SAID}).outcome == "ok"
    manager.call("write", {"file_path": "f", "content": SAID})
    manager.call("bash", {"command": f"true {SAID}"})

    assert (workspace / "f").read_text() == SAID
    assert SAID not in caplog.text
    assert KEY not in caplog.text
