"""What is wrong with a declaration is said when it is read, with the next step."""

from typing import Any

import pytest

from tests.net.http.conftest import MakeManager

pytestmark = pytest.mark.slow

URL = "https://api.example.com/v1"
NAMES = ("a", "audio_file", "file", "file_path", "name", "path")


def problems(manager_of: MakeManager, backend: dict[str, Any]) -> list[tuple[str, str, str]]:
    properties: dict[str, Any] = {name: {} for name in NAMES}
    manager = manager_of({"url": URL, "method": "POST"} | backend, properties)
    manager.get_skill_tools("demo")
    return [(p.code, p.severity, p.message) for p in manager.problems]


@pytest.mark.parametrize(
    ("backend", "said"),
    [
        ({"headers": {"X": "${open"}}, "headers: X: a `${` that is never closed"),
        ({"headers": {"X Y": "1"}}, "'X Y' is not the name of a header"),
        ({"headers": {"X": "1", "x": "2"}}, "x appears twice"),
        ({"headers": {"X": "a\nb"}}, "a header cannot hold line breaks"),
        ({"body_template": "{"}, "body_template: not JSON"),
        ({"body_template": "a=${a}"}, "for anything but JSON declare a Content-Type header"),
        ({"body_template": "{}", "body": {}}, "there can be one body"),
        ({"body": {"${k}": 1}}, "body: the key '${k}' has a placeholder"),
        ({"multipart": ["a"]}, "multipart: it is not a mapping of fields"),
        ({"multipart": {"f": {"path": 1}}}, "multipart.f: path, filename and content_type must be"),
        ({"multipart": {"f": {"path": "x", "mode": "r"}}}, "'mode' is not path, filename or"),
        (
            {"multipart": {"f": {"path": "x", "content_type": "a\r\nb"}}},
            "a content type must be one",
        ),
        ({"response": {"mode": "websocket"}}, "response: mode 'websocket' is not one of"),
        ({"response": {"modus": "sse"}}, "response: 'modus' is not one of mode, event"),
        ({"response": {"max_events": 0}}, "max_events is 0, not a number above 0"),
        ({"response": {"until": 1}}, "until is a int, not text"),
        ({"response": [1]}, "response: it is not a mapping"),
        ({"retries": 2}, "retries: a POST that is sent twice may take effect twice"),
        ({"retries": "2"}, "retries: it is '2', not a number"),
    ],
)
def test_a_declaration_that_says_no_request_is_an_error(
    backend: dict[str, Any], said: str, manager_of: MakeManager
) -> None:
    found = problems(manager_of, backend)

    is_template = "of the template" in found[0][2]
    code = "template-invalid" if is_template else "backend-invalid"
    assert [(each[0], each[1]) for each in found] == [(code, "error")]
    assert said in found[0][2]


def test_a_path_sent_as_text_is_told_how_to_send_the_file(manager_of: MakeManager) -> None:
    template = '{"file": "${audio_file}", "model": "whisper-1"}'

    found = problems(manager_of, {"body_template": template})

    message = (
        "`file: ${audio_file}` sends the path as text, not the file; to send the file, write "
        "`multipart: {file: {path: ${audio_file}}, …}` in place of the body"
    )
    assert found == [("http-path-as-text", "warning", message)]


@pytest.mark.parametrize(
    "body",
    [
        {"path": "${path}"},
        {"file": "${name}"},
        {"file": "prefix ${audio_file}"},
        {"message": "${file_path}"},
        {"file": {"name": "${file}"}},
        ["${file}"],
        "${env:FILE}",
    ],
)
def test_a_path_that_may_well_be_meant_is_not_doubted(body: Any, manager_of: MakeManager) -> None:
    assert problems(manager_of, {"body": body if not isinstance(body, str) else [body]}) == []


def test_a_header_of_skillpouchs_own_is_doubted(manager_of: MakeManager) -> None:
    message = "the header Host is set by Skillpouch itself: it is left out"

    found = problems(manager_of, {"headers": {"Host": "a", "X-Own": "b"}})

    assert found == [("http-header-ignored", "warning", message)]


def test_an_unknown_field_is_doubted(manager_of: MakeManager) -> None:
    found = problems(manager_of, {"query": {"a": 1}})

    assert [(code, severity) for code, severity, _ in found] == [("http-field-unknown", "warning")]
