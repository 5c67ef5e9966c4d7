"""A3S Box, HTTP tools: its examples as they stand, against a real server, or the fix for them."""

import json
from pathlib import Path

import pytest

from skillpouch import SkillManager
from skillpouch.checks.report import check_skills
from tests.conftest import WriteSkill
from tests.net.http.conftest import LOCAL
from tests.net.http.servers import Seen, Server, Writer, reply

pytestmark = pytest.mark.slow

WEATHER = """\
name: weather
description: Weather.
tools:
  - name: weather-api
    description: Get weather information
    backend:
      type: http
      url: {url}/weather
      method: GET
      headers:
        Authorization: "Bearer ${{env:API_KEY}}"
      timeout_ms: 30000
    parameters:
      type: object
      properties:
        city:
          type: string
      required:
        - city
"""

WHISPER = """\
name: openai-whisper
description: Transcribe audio using OpenAI Whisper API
tools:
  - name: transcribe
    description: Transcribe audio file
    backend:
      type: http
      url: {url}/v1/audio/transcriptions
      method: POST
      headers:
        Authorization: "Bearer ${{env:OPENAI_API_KEY}}"
{body}
    parameters:
      type: object
      properties:
        audio_file:
          type: string
      required:
        - audio_file
"""
LITERAL = """\
      body_template: |
        {
          "file": "${audio_file}",
          "model": "whisper-1"
        }
"""
MENDED = """\
      multipart:
        file: {path: "${audio_file}"}
        model: whisper-1
"""


def test_the_weather_example_asks_with_a_query_and_a_token(
    write_skill: WriteSkill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", "sk-of-the-user")

    def answer(_: Seen, write: Writer) -> None:
        write(reply('{"temperature": 21}', kind="application/json"))

    with Server(answer) as server:
        root = write_skill("weather", front=WEATHER.format(url=server.url)).parent
        manager = SkillManager(root, workspace=_work(tmp_path), policy=LOCAL)

        result = manager.call("weather-api", {"city": "Paris & Rome"})

    assert (result.exit_code, result.structured) == (0, {"temperature": 21})
    assert server.seen[0].target == "/weather?city=Paris%20%26%20Rome"
    assert server.seen[0].header("authorization") == ["Bearer sk-of-the-user"]


def test_the_whisper_example_is_told_its_fix(write_skill: WriteSkill, tmp_path: Path) -> None:
    front = WHISPER.format(url="https://api.openai.com", body=LITERAL)
    manager = SkillManager(
        write_skill("openai-whisper", front=front).parent, workspace=_work(tmp_path)
    )

    tools = manager.get_skill_tools("openai-whisper")

    assert [tool.id for tool in tools] == ["openai-whisper.transcribe"]
    assert [problem.code for problem in manager.problems] == ["http-path-as-text"]
    assert "multipart: {file: {path: ${audio_file}}" in manager.problems[0].message


def test_the_whisper_example_with_its_fix_sends_the_audio(
    write_skill: WriteSkill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-user")
    work = _work(tmp_path)
    (work / "clip.mp3").write_bytes(b"ID3\x00audio")

    def transcribe(seen: Seen, write: Writer) -> None:
        is_audio = b"ID3\x00audio" in seen.body and b"whisper-1" in seen.body
        text = {"text": "hello" if is_audio else "nothing"}
        write(reply(json.dumps(text), kind="application/json"))

    with Server(transcribe) as server:
        front = WHISPER.format(url=server.url, body=MENDED)
        root = write_skill("openai-whisper", front=front).parent
        manager = SkillManager(root, workspace=work, policy=LOCAL)

        result = manager.call("transcribe", {"audio_file": "clip.mp3"})

    assert manager.problems == []
    assert result.structured == {"text": "hello"}
    assert server.seen[0].target == "/v1/audio/transcriptions"


def test_a_hard_coded_key_is_bad_practice_that_check_finds(write_skill: WriteSkill) -> None:
    bad = "sk-proj-" + "Zq81LmXw0Pt7RvKc52YdHs93BnUe"  # in two pieces: nobody's key
    front = WEATHER.format(url="https://api.example.com").replace("${env:API_KEY}", bad)
    root = write_skill("weather", front=front).parent

    [problem] = check_skills([root], False, lambda *_: None).problems

    assert problem.code == "hardcoded-secret"
    assert bad not in problem.message


def _work(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    return work
