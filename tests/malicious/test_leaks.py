"""A granted secret is nowhere to be seen, whatever the tool does with it."""

import asyncio
import base64
import json
import logging
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from skillpouch import Limits, Policy, SkillManager
from skillpouch.calls import Access
from skillpouch.errors import CallDeniedError, SkillpouchError
from skillpouch.journal.reading import JournalReader, Query
from skillpouch.journal.telemetry import Telemetry
from skillpouch.policy import Question, Rule
from skillpouch.policy.authorize import Permit
from skillpouch.results import ToolResult
from skillpouch.secrets.encoded_forms import forms_of
from skillpouch.secrets.redaction import Redactor
from tests.malicious.conftest import SECRET, Grant, MakeManager

pytestmark = [pytest.mark.slow, pytest.mark.promise("call-4")]

# Every way in which a tool may say it; `s` is the secret.
SAY = """
import base64, html, json, os, shlex, sys, textwrap
from urllib.parse import quote, quote_plus
s = os.environ["API_KEY"]
b = base64.b64encode(("prefix " + s + " suffix").encode()).decode()
WAYS = {
    "plain": s,
    "base64": base64.b64encode(s.encode()).decode(),
    "inside base64": b,
    "urlsafe": base64.urlsafe_b64encode(s.encode()).decode(),
    "wrapped": "\\n".join(textwrap.wrap(b, 7)),
    "percent": quote(s, safe=""),
    "form": quote_plus(s),
    "hex": s.encode().hex(),
    "HEX": s.encode().hex().upper(),
    "json": json.dumps(s),
    "json in json": json.dumps(json.dumps(s)),
    "all escaped": "".join(f"\\\\u{ord(c):04X}" for c in s),
    "html": html.escape(s),
    "shell": shlex.quote(s),
    "escapes": s[:4] + "\\x1b[31m" + s[4:],
    "zero width": s[:4] + "\\u200b" + s[4:],
}
"""
TELL = {
    "scripts/say.py": SAY + "for way in WAYS.values():\n    print(way)\n"
    "    print(way, file=sys.stderr)\n",
    "scripts/fail.py": SAY + "print(WAYS)\nraise SystemExit(' '.join(WAYS.values()))\n",
    "scripts/answer.py": SAY + "def handler(args):\n    return {'ways': WAYS, s: [s, {s: s}]}\n",
    "scripts/scream.py": SAY + "def handler(args):\n    raise RuntimeError(s, WAYS)\n",
    "scripts/pieces.py": SAY + "import time\nfor piece in (s[:5], s[5:9], s[9:]):\n"
    "    print(piece, end='', flush=True)\n    time.sleep(0.05)\n",
    "scripts/edge.py": SAY + "n = int(sys.argv[1])\nprint('x' * n + s + 'y' * 3000)\n",
    "scripts/edge_escapes.py": SAY + "def handler(args):\n"
    "    half = ''.join(f'\\\\u{ord(c):04x}' for c in s[1:])\n"
    "    text = '\"' + 'x' * args['n'] + s[0] + half + 'y' * 3000 + '\"'\n"
    "    os.write(3, text.encode())\n    os._exit(0)\n",
    "scripts/edge_answer.py": SAY + "def handler(args):\n"
    "    return 'x' * args['n'] + s + 'y' * 3000\n",
    "scripts/names.py": SAY + "open(s.replace('/', '%2F'), 'w').write('x')\n"
    "open(s.encode().hex(), 'w').write('x')\n",
    "scripts/hang.py": SAY + "print(s, flush=True)\nimport time\ntime.sleep(60)\n",
    "scripts/flood.py": SAY + "while True:\n    print(s * 100)\n",
    "scripts/shell.sh": 'echo "$API_KEY"; echo "$API_KEY" | base64; echo "$API_KEY" >&2; exit 1\n',
    "scripts/node.mjs": "export default async () => { throw new Error(process.env.API_KEY) }\n",
}
CALLS: list[tuple[str, Any]] = [
    ("bad.say", None),
    ("bad.fail", None),
    ("bad.answer", {}),
    ("bad.scream", {}),
    ("bad.pieces", None),
    ("bad.names", None),
    ("bad.hang", None),
    ("bad.flood", None),
    ("bad.shell", None),
    ("bad.node", {}),
]
FORMS = {form for form in forms_of(SECRET) if len(form) > 8}


@pytest.fixture(autouse=True)
def secret_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", SECRET)


@pytest.fixture
def manager(manager_of: MakeManager, grant: Grant) -> SkillManager:
    limits = Limits(timeout_seconds=3, keep_bytes=4000, kill_bytes=100_000, memory_bytes=4 << 30)
    manager = manager_of(TELL, limits=limits)
    grant(manager, secrets="API_KEY")
    return manager


def leaks_in(*seen: Any) -> list[bytes]:
    """The forms of the secret that can be read somewhere, also across line ends."""
    found = []
    for each in seen:
        data = each if isinstance(each, bytes) else str(each).encode(errors="surrogatepass")
        flat = data.replace(b"\n", b"")
        found += [form for form in FORMS if form in data or form in flat]
    return found


def seen_of(result: ToolResult) -> list[Any]:
    """Everything of a result that anybody can look at."""
    saved = [path.read_bytes() for path in result.saved]
    whole = [repr(result), result.content, result.stdout, result.stderr, result.output, *saved]
    return [*whole, json.dumps(result.structured), *result.files, *result.timings]


def kept_in(state: Path) -> list[bytes]:
    """The raw bytes of everything that is on record, write-ahead log and all.

    Not the names and bytes of files that a call itself put into the workspace: to be undone, they
    are kept as they are, where only the user can read them.
    """
    kept = state / "changes"
    found = [path for path in state.rglob("*") if path.is_file() and kept not in path.parents]
    return [path.read_bytes() for path in found]


@pytest.mark.timeout(180)
def test_no_result_no_record_and_no_log_holds_a_granted_secret(
    manager: SkillManager, state: Path, workspace: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    heard: list[bytes] = []

    async def call_all() -> list[ToolResult]:
        asyncio.get_running_loop().set_debug(True)
        return [
            await manager.acall(name, args, on_output=lambda _, piece: heard.append(piece))
            for name, args in CALLS
        ]

    results = asyncio.run(call_all(), debug=True)

    outcomes = [result.outcome for result in results]
    assert " ".join(outcomes) == "ok failed ok failed ok ok timed_out killed failed failed"
    for (name, _), result in zip(CALLS, results, strict=True):
        assert leaks_in(*seen_of(result)) == [], name
        if name != "bad.names":
            assert "[redacted API_KEY]" in result.content, name
    assert leaks_in(b"".join(heard), *heard) == []
    assert leaks_in(*kept_in(state)) == []
    assert leaks_in(caplog.text, *[record.__dict__ for record in caplog.records]) == []
    output = [
        path.read_bytes() for path in (workspace / ".skillpouch").rglob("*") if path.is_file()
    ]
    assert leaks_in(*output) == []


@pytest.mark.parametrize("name", ["bad.fail", "bad.scream", "bad.shell"])
def test_what_invoke_raises_does_not_say_it(name: str, manager: SkillManager) -> None:
    with pytest.raises(SkillpouchError) as caught:
        manager.get_tool(name).invoke({})

    error = caught.value
    trace = "".join(traceback.format_exception(error))
    assert leaks_in(str(error), repr(error), error.args, vars(error), trace) == []
    assert "[redacted API_KEY]" in str(error)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("before", [1985, 1990, 1995, 2000, 2003])
def test_output_that_is_cut_inside_the_secret_shows_no_half_of_it(
    before: int, manager: SkillManager
) -> None:
    printed = manager.call("bad.edge", {"n": before})
    answered = manager.call("bad.edge_answer", {"n": before})
    escaped = manager.call("bad.edge_escapes", {"n": before})

    for result in (printed, answered, escaped):
        assert result.outcome == "ok"
        assert result.truncated
        everything = "".join(map(str, seen_of(result)))
        halves = [SECRET[:size] for size in range(6, len(SECRET))]
        halves += [SECRET[-size:] for size in range(6, len(SECRET))]
        assert [half for half in halves if half in everything] == []


@pytest.mark.timeout(120)
@pytest.mark.parametrize("extra", [[], ["--json", "--timings"]], ids=["text", "json"])
def test_the_command_line_does_not_print_it(
    extra: list[str], manager: SkillManager, workspace: Path
) -> None:
    for name in ("bad.say", "bad.fail"):
        words = ["call", name, "--root", str(manager.roots[0]), *extra]

        ran = subprocess.run(
            [sys.executable, "-m", "skillpouch", *words],
            cwd=workspace,
            capture_output=True,
            check=False,
        )

        assert leaks_in(ran.stdout, ran.stderr) == []
        assert b"[redacted API_KEY]" in ran.stdout + ran.stderr


def test_a_secret_among_the_arguments_is_not_kept(manager: SkillManager, state: Path) -> None:
    nested = {
        "data": {"key": [SECRET, {quote(SECRET): 1}], "b": base64.b64encode(b"x")[:0].decode()}
    }

    manager.call("bad.say", nested)

    with JournalReader(state) as reader:
        (entry,) = reader.after(Query())
    assert entry.arguments["data"]["key"][0] == "[redacted API_KEY]"
    assert leaks_in(*kept_in(state)) == []


@pytest.mark.parametrize("verdict", ["deny", "ask"])
def test_a_secret_among_the_arguments_of_a_denied_call_is_not_kept_and_not_shown(
    verdict: Any, manager_of: MakeManager, grant: Grant, state: Path
) -> None:
    asked: list[Question] = []

    def refuse(question: Question) -> bool:
        asked.append(question)
        return False

    rules = [Rule(verdict=verdict, tools=["bad.*"])]
    manager = manager_of(TELL, policy=Policy(rules=rules), approver=refuse)
    grant(manager, secrets="API_KEY")

    with pytest.raises(CallDeniedError) as caught:
        manager.call("bad.say", {"data": f"use {SECRET}"})

    assert len(asked) == (verdict == "ask")
    assert leaks_in(*asked, repr(caught.value), *kept_in(state)) == []


def test_large_arguments_with_the_secret_leave_no_file(
    manager: SkillManager, workspace: Path, tmp_path: Path
) -> None:
    manager.call("bad.say", {"data": f"{SECRET}{'x' * 300_000}"})

    left = [path for path in tmp_path.rglob("*") if path.is_file() and "skills" not in path.parts]
    assert leaks_in(*[path.read_bytes() for path in left]) == []
    assert list(workspace.iterdir()) in ([], [workspace / ".skillpouch"])


def test_spans_do_not_hold_it(
    manager_of: MakeManager, grant: Grant, monkeypatch: pytest.MonkeyPatch
) -> None:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    # Not the provider of the process: that can be set once only, and is another test's.
    monkeypatch.setattr(
        "skillpouch.journal.telemetry._tracer", lambda: provider.get_tracer("skillpouch")
    )
    telemetry = Telemetry(enabled=True, content=True)
    manager = manager_of(TELL, telemetry=telemetry)
    grant(manager, secrets="API_KEY")

    for name in ("bad.say", "bad.fail"):
        manager.call(name, {"data": SECRET})

    spans = exporter.get_finished_spans()
    assert len(spans) == 2
    assert leaks_in(*[span.to_json() for span in spans]) == []


@pytest.mark.parametrize(
    "value", ["hunter2\0hunter2", "hunter2" * 30_000, "hunter2\udcff\nhunter2"]
)
def test_a_value_that_no_environment_can_hold_is_not_in_the_error(
    value: str, manager_of: MakeManager, grant: Grant, state: Path
) -> None:
    manager = manager_of(TELL, secrets=lambda _, __: value)
    grant(manager, secrets="API_KEY")
    seen: list[Any] = []

    try:
        seen += seen_of(manager.call("bad.shell"))
    except SkillpouchError as error:
        seen += [str(error), repr(error), error.hint, *traceback.format_exception(error)]

    assert [each for each in (*seen, *kept_in(state)) if "hunter2" in str(each)] == []


def test_what_holds_secrets_inside_does_not_show_them() -> None:
    given = Access(secrets={"API_KEY": SECRET})
    redactor = Redactor({"API_KEY": SECRET})

    assert leaks_in(given, redactor, Permit(access=given, redactor=redactor)) == []


ACCOUNT = {
    "type": "service_account",
    "private_key": "-----BEGIN PRIVATE KEY-----\n"
    "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n"
    "MzEfYyjiWA4R4/M2bS1GB4t7NXp98C3SC6dVMvDuictGeurT8jNbvJZHtCSuYEvu\n"
    "-----END PRIVATE KEY-----\n",
    "client_secret": "both 'kinds' of \"quotes\" and a \\ in it",
}
DUMPS = {
    "scripts/environ.py": "import os, sys\nprint(dict(os.environ))\n"
    "print(os.environb, file=sys.stderr)\nraise KeyError(os.environ['API_KEY'])\n",
    "scripts/answer.py": "import os\ndef handler(args):\n"
    "    return {'all': repr(dict(os.environ)), 'one': [os.environ['API_KEY']]}\n",
    "scripts/raise.py": "import json, os\ndef handler(args):\n"
    "    key = os.environ['API_KEY']\n    raise KeyError(json.loads(key)['client_secret'], key)\n",
    "scripts/inspect.mjs": "console.log(process.env);\n"
    "console.error(JSON.parse(process.env.API_KEY));\nthrow new Error(process.env.API_KEY);\n",
    "scripts/dumper.pl": "use Data::Dumper; print Dumper(\\%ENV); die Dumper($ENV{API_KEY});\n",
    "scripts/words.sh": 'printf %q "$API_KEY"; set; declare -p API_KEY; env; set -x\n'
    ': "$API_KEY"; exit 3\n',
}


def pieces_of(value: Any) -> set[str]:
    """Twelve characters in a row of the texts that nobody may see."""
    texts = [*value["private_key"].split("\n")[1:3], value["client_secret"]]
    return {text[at : at + 12] for text in texts for at in range(len(text) - 11)}


@pytest.mark.parametrize("indent", [None, 2], ids=["one line", "many lines"])
def test_no_piece_of_a_json_key_is_shown_by_tools_that_print_their_environment(
    indent: int | None, manager_of: MakeManager, grant: Grant, state: Path
) -> None:
    value = json.dumps(ACCOUNT, indent=indent)
    manager = manager_of(DUMPS, secrets=lambda _, __: value)
    grant(manager, secrets="API_KEY")
    seen: list[Any] = []

    for name in DUMPS:
        tool = f"bad.{Path(name).stem}"
        result = manager.call(tool, {}, on_output=lambda _, piece: seen.append(piece))
        seen.extend(seen_of(result))
        assert "[redacted API_KEY]" in result.content
        try:
            seen.append(manager.get_tool(tool).invoke({}))
        except SkillpouchError as error:
            seen.extend([str(error), vars(error), *traceback.format_exception(error)])

    whole = "\n".join(
        each.decode(errors="replace") if isinstance(each, bytes) else str(each)
        for each in (*seen, *kept_in(state))
    )
    assert {piece for piece in pieces_of(ACCOUNT) if piece in whole} == set()
