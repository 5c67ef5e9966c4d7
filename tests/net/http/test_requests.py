"""What an http tool sends: method, address, headers and body, as a real server sees them."""

import json
from contextlib import ExitStack
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skillpouch.declarations.backends import read_backend
from skillpouch.declarations.declared import DeclarationError
from skillpouch.errors import InvalidArgumentsError
from skillpouch.net.http.plan import plan_of
from skillpouch.net.http.request import Filling, make_request
from skillpouch.tools import Http
from tests.net.http.conftest import Call, MakeManager, Serve

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "get", "Put"])
def test_every_method_arrives_however_it_is_spelt(method: str, serve: Serve, call: Call) -> None:
    server = serve()

    result = call({"url": server.url, "method": method})

    assert result.outcome == "ok"
    assert [seen.method for seen in server.seen] == [method.upper()]


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
def test_arguments_without_a_place_become_the_query(method: str, serve: Serve, call: Call) -> None:
    server = serve()
    arguments = {"city": "São Paulo", "n": 3, "full": True, "tags": ["a", "b&c"], "none": None}

    call({"url": f"{server.url}/weather?v=1", "method": method}, arguments)

    path, _, query = server.seen[0].target.partition("?")
    assert path == "/weather"
    assert parse_qsl(query) == [
        ("v", "1"),
        ("city", "São Paulo"),
        ("n", "3"),
        ("full", "true"),
        ("tags", "a"),
        ("tags", "b&c"),
    ]
    assert server.seen[0].body == b""


def test_an_argument_in_the_path_is_not_repeated_in_the_query(serve: Serve, call: Call) -> None:
    server = serve()

    call({"url": f"{server.url}/users/${{id}}"}, {"id": "users", "page": 2})

    assert server.seen[0].target == "/users/users?page=2"


def test_an_argument_in_a_header_is_not_repeated_in_the_query(serve: Serve, call: Call) -> None:
    server = serve()

    call({"url": server.url, "headers": {"X-Trace": "${trace}"}}, {"trace": "t1"})

    assert server.seen[0].target == "/"
    assert server.seen[0].header("x-trace") == ["t1"]


def test_without_a_template_all_arguments_are_the_json_body(serve: Serve, call: Call) -> None:
    server = serve()
    arguments = {"a": 'x", "admin": true', "n": 1.5, "deep": {"l": [None, "ü"]}}

    call({"url": server.url, "method": "POST"}, arguments)

    assert json.loads(server.seen[0].body) == arguments
    assert server.seen[0].header("content-type") == ["application/json"]


@pytest.mark.promise("http-3")
def test_a_quote_in_a_value_adds_no_member_to_the_body(serve: Serve, call: Call) -> None:
    server = serve()
    template = '{"file": "${f}", "n": ${n}, "text": "<${f}>"}'
    value = '","admin":true,"x":"'

    call({"url": server.url, "method": "POST", "body_template": template}, {"f": value, "n": 3})

    assert json.loads(server.seen[0].body) == {"file": value, "n": 3, "text": f"<{value}>"}


def test_a_structured_body_keeps_types_and_leaves_out_what_is_missing(
    serve: Serve, call: Call
) -> None:
    server = serve()
    body = {"q": "${q}", "limit": "${limit}", "on": True, "items": ["${q}", 2]}

    call({"url": server.url, "method": "POST", "body": body}, {"q": ["a"]})

    assert json.loads(server.seen[0].body) == {"q": ["a"], "on": True, "items": [["a"], 2]}


def test_the_authors_content_type_wins_and_comes_once(serve: Serve, call: Call) -> None:
    server = serve()
    headers = {"content-type": "application/vnd.api+json", "Accept": "text/csv"}

    call({"url": server.url, "method": "POST", "headers": headers}, {"a": 1})

    assert server.seen[0].header("content-type") == ["application/vnd.api+json"]
    assert server.seen[0].header("accept") == ["text/csv"]
    assert json.loads(server.seen[0].body) == {"a": 1}


FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize(
    "body", [{"body_template": "a=${a}&b=${b}"}, {"body": {"a": "${a}", "b": "${b}"}}, {}]
)
def test_a_form_is_encoded_as_one(body: dict[str, Any], serve: Serve, call: Call) -> None:
    server = serve()

    call({"url": server.url, "method": "POST", "headers": FORM, **body}, {"a": "x&b=evil", "b": 2})

    assert parse_qsl(server.seen[0].body.decode()) == [("a", "x&b=evil"), ("b", "2")]
    assert server.seen[0].header("content-type") == [FORM["Content-Type"]]


def test_other_text_goes_as_it_is_when_its_type_is_declared(serve: Serve, call: Call) -> None:
    server = serve()
    backend = {"method": "POST", "headers": {"Content-Type": "text/plain"}}

    call({"url": server.url, "body_template": "Hello ${who}!", **backend}, {"who": "Ada & Bob"})

    assert server.seen[0].body == b"Hello Ada & Bob!"


@pytest.mark.promise("http-3")
@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\0b", "\r"])
def test_a_line_break_in_a_value_adds_no_header(
    value: str, serve: Serve, manager_of: MakeManager
) -> None:
    server = serve()
    manager = manager_of({"url": server.url, "headers": {"X-Name": "${name}"}}, {"name": {}})

    with pytest.raises(InvalidArgumentsError) as caught:
        manager.call("demo.ask", {"name": value})

    assert "name: a header cannot hold line breaks" in str(caught.value)
    assert server.seen == []


@pytest.mark.promise("http-3")
@pytest.mark.parametrize(
    "value", ["../admin", "a/b", "a?x=1", "a#b", "@evil.com", "\\evil", "%2e%2e", "a b", "ü", ";"]
)
def test_a_value_in_the_path_stays_one_segment(value: str, serve: Serve, call: Call) -> None:
    server = serve()

    call({"url": f"{server.url}/v1/${{id}}/end"}, {"id": value})

    first, segment, last = server.seen[0].target.removeprefix("/").split("/")
    assert (first, unquote(segment), last) == ("v1", value, "end")


def test_a_path_without_its_value_is_an_error_before_anything_is_sent(
    serve: Serve, manager_of: MakeManager
) -> None:
    server = serve()
    manager = manager_of({"url": f"{server.url}/${{id}}"}, {"id": {}})

    with pytest.raises(InvalidArgumentsError):
        manager.call("demo.ask", {})

    assert server.seen == []


def test_headers_that_are_skillpouchs_own_are_left_out(serve: Serve, call: Call) -> None:
    server = serve()
    headers = {"Host": "internal", "Content-Length": "0", "Connection": "close", "X-Own": "1"}

    call({"url": server.url, "method": "POST", "headers": headers}, {"a": 1})

    assert server.seen[0].header("host") == [server.host]
    assert server.seen[0].header("content-length") == ["7"]
    assert server.seen[0].header("x-own") == ["1"]


TEXT = st.text(st.characters(exclude_categories=["Cs"]))
quick = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.promise("http-3")
@quick
@given(path=TEXT.filter(lambda text: text not in ("", ".", "..")), query=TEXT, rest=TEXT)
def test_no_value_changes_the_origin_or_another_value(
    path: str, query: str, rest: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    http = Http(url="https://api.example.com/a/${p}?q=${q}", method="GET")
    arguments = {"p": path, "q": query, "rest": rest}
    with ExitStack() as stack:
        filling = Filling(
            arguments=arguments, secrets={}, workspace=tmp_path_factory.getbasetemp(), stack=stack
        )
        request = make_request(plan_of(http), filling)

    parts = urlsplit(str(request.url))
    assert (parts.scheme, parts.netloc) == ("https", "api.example.com")
    assert parts.path.split("/")[1] == "a"
    assert [unquote(segment) for segment in parts.path.split("/")[2:]] == [path]
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    assert pairs == [("q", query), ("rest", rest)]


HALF = "half a character: \ud800"


@pytest.mark.parametrize(
    "backend",
    [
        {"url": "/x"},
        {"url": "/${v}"},
        {"url": "/x", "headers": {"X": "${v}"}},
        {"url": "/x", "method": "POST"},
        {"url": "/x", "method": "POST", "body": {"v": "${v}"}},
        {"url": "/x", "method": "POST", "multipart": {"v": "${v}"}},
        {"url": "/x", "method": "POST", "multipart": {"v": {"path": "${v}"}}},
    ],
    ids=str,
)
@pytest.mark.parametrize("value", [HALF, [HALF], {"a": HALF}, float("nan")], ids=repr)
def test_what_is_no_text_is_an_error_of_the_caller(
    backend: dict[str, Any], value: Any, serve: Serve, manager_of: MakeManager
) -> None:
    server = serve()
    manager = manager_of(backend | {"url": f"{server.url}{backend['url']}"}, {"v": {}})

    with pytest.raises(InvalidArgumentsError):
        manager.call("demo.ask", {"v": value})

    assert server.seen == []


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.sampled_from(["${a}", "sse", "$", "{"]),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
FIELDS = [
    "body",
    "multipart",
    "body_file",
    "response",
    "retries",
    "headers",
    "url",
    "body_template",
]


@quick
@given(backend=st.dictionaries(st.sampled_from(FIELDS), anything))
def test_any_declaration_is_a_tool_or_an_error_with_its_reason(backend: dict[str, Any]) -> None:
    try:
        runs = read_backend({"backend": {"type": "http", "url": "http://a.com/"} | backend})
    except DeclarationError as error:
        runs, said = None, error.message
    else:
        said = ""

    assert bool(said) != isinstance(runs, Http)
