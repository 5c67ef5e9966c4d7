"""Files of the workspace in a request: sent as they are, and no others."""

import os
from contextlib import ExitStack
from email.parser import BytesParser
from email.policy import HTTP
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skillpouch import Limits
from skillpouch.errors import InvalidArgumentsError
from skillpouch.net.http.request import UploadError, open_upload
from tests.net.http.conftest import Call, MakeManager, Serve
from tests.net.http.servers import Seen, Writer, reply

pytestmark = pytest.mark.slow

WHISPER = {"file": {"path": "${audio_file}"}, "model": "whisper-1"}


def parts(seen: Seen) -> dict[str, tuple[str | None, str, Any]]:
    """Read a body as a server does: name → file name, type, content."""
    head = f"Content-Type: {seen.header('content-type')[0]}\r\n\r\n".encode()
    message = BytesParser(policy=HTTP).parsebytes(head + seen.body)
    return {
        str(part.get_param("name", header="content-disposition")): (
            part.get_filename(),
            part.get_content_type(),
            part.get_payload(decode=True),
        )
        for part in message.iter_parts()
    }


def test_a_file_and_fields_arrive_as_a_form(serve: Serve, call: Call, workspace: Path) -> None:
    audio = os.urandom(700_000)
    (workspace / "in").mkdir()
    (workspace / "in/clip.wav").write_bytes(audio)
    server = serve(reply('{"text": "hello"}', kind="application/json"))
    fields = WHISPER | {"temperature": 0.5, "tags": ["a", "b"], "prompt": "${prompt}"}
    backend = {"url": server.url, "method": "POST", "multipart": fields}

    result = call(
        backend | {"headers": {"Content-Type": "multipart/form-data"}},
        {"audio_file": "in/clip.wav"},
        properties={"audio_file": {}, "prompt": {}},
    )

    assert result.structured == {"text": "hello"}
    seen = server.seen[0]
    assert parts(seen) == {
        "file": ("clip.wav", "audio/x-wav", audio),
        "model": (None, "text/plain", b"whisper-1"),
        "temperature": (None, "text/plain", b"0.5"),
        "tags": (None, "text/plain", b"b"),
    }
    assert seen.body.count(b'name="tags"') == 2
    assert int(seen.header("content-length")[0]) == len(seen.body)


def test_a_file_can_be_the_whole_body(serve: Serve, call: Call, workspace: Path) -> None:
    (workspace / "a.json").write_text("[1]")
    server = serve()

    call({"url": server.url, "method": "PUT", "body_file": "${f}"}, {"f": "./a.json"})

    assert server.seen[0].body == b"[1]"
    assert server.seen[0].header("content-type") == ["application/json"]


def test_name_and_type_can_be_declared(serve: Serve, call: Call, workspace: Path) -> None:
    (workspace / "x").write_bytes(b"data")
    server = serve()
    part = {"path": "${f}", "filename": "${n}", "content_type": "audio/mpeg"}

    call(
        {"url": server.url, "method": "POST", "multipart": {"file": part}},
        {"f": str(workspace / "x"), "n": 'a"\r\nX: 1;ü.mp3'},
    )

    body = server.seen[0].body
    assert 'filename="a%22%0D%0AX: 1;ü.mp3"\r\nContent-Type: audio/mpeg\r\n'.encode() in body


@pytest.mark.promise("http-9")
@pytest.mark.parametrize(
    "path",
    [
        *("/etc/passwd", "../outside.txt", "a/../../outside.txt", "link", "folder-link/in.txt"),
        *("", ".", "folder", "fifo", "missing", "file/x", "nul\0", "/", "//etc/passwd"),
    ],
)
def test_only_regular_files_of_the_workspace_are_sent(
    path: str, serve: Serve, manager_of: MakeManager, workspace: Path
) -> None:
    (workspace.parent / "outside.txt").write_text("secret")
    (workspace.parent / "elsewhere").mkdir()
    (workspace.parent / "elsewhere/in.txt").write_text("secret")
    (workspace / "link").symlink_to(workspace.parent / "outside.txt")
    (workspace / "folder-link").symlink_to(workspace.parent / "elsewhere")
    (workspace / "folder").mkdir()
    (workspace / "file").write_text("x")
    os.mkfifo(workspace / "fifo")
    server = serve()
    backend = {"url": server.url, "method": "POST", "multipart": WHISPER}
    manager = manager_of(backend, {"audio_file": {"type": "string"}})

    with pytest.raises(InvalidArgumentsError):
        manager.call("demo.ask", {"audio_file": path})

    assert server.seen == []


def test_a_link_inside_the_workspace_is_followed_and_a_wrong_name_is_told_the_right_one(
    serve: Serve, manager_of: MakeManager, workspace: Path
) -> None:
    (workspace / "clip.mp3").write_text("sound")
    (workspace / "latest").symlink_to("clip.mp3")
    server = serve()
    backend = {"url": server.url, "method": "POST", "body_file": "${f}"}
    manager = manager_of(backend, {"f": {}})

    assert manager.call("demo.ask", {"f": "latest"}).outcome == "ok"
    with pytest.raises(InvalidArgumentsError, match=r"did you mean 'clip\.mp3'"):
        manager.call("demo.ask", {"f": "clip.mp4"})

    assert [seen.body for seen in server.seen] == [b"sound"]


def test_a_file_that_is_too_large_is_not_sent(
    serve: Serve, manager_of: MakeManager, workspace: Path
) -> None:
    (workspace / "big").write_bytes(b"x" * 2_000)
    server = serve()
    backend = {"url": server.url, "method": "POST", "body_file": "${f}"}
    manager = manager_of(backend, {"f": {}}, limits=Limits(file_bytes=1_000))

    with pytest.raises(InvalidArgumentsError, match="2,000 bytes, the limit is 1,000"):
        manager.call("demo.ask", {"f": "big"})


def test_a_file_that_shrinks_while_it_is_sent_is_a_failed_result(
    serve: Serve, call: Call, workspace: Path
) -> None:
    file = workspace / "shrinking"
    file.write_bytes(b"x" * 4_000_000)

    def answer(_: Seen, write: Writer) -> None:
        write(reply("once more", "503 Busy", Retry_After="0"))
        file.write_bytes(b"")

    result = call(
        {"url": serve(answer).url, "method": "PUT", "body_file": "${f}"}, {"f": file.name}
    )

    assert (result.outcome, result.code) in (("failed", "upload"), ("failed", "no_answer"))


NAMES = st.lists(st.sampled_from([".", "..", "a", "link", "", "up", "/", "file"]), max_size=6)


@pytest.mark.promise("http-9")
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=NAMES)
def test_no_path_leads_out_of_the_workspace(
    names: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    base = tmp_path_factory.getbasetemp() / "no-path"
    workspace = base / "work"
    if not workspace.exists():
        (workspace / "a").mkdir(parents=True)
        (base / "file").write_text("outside")
        (workspace / "file").write_text("inside")
        (workspace / "a/file").write_text("inside")
        (workspace / "link").symlink_to(base)
        (workspace / "a/up").symlink_to("../..")

    with ExitStack() as stack:
        try:
            opened: Any = open_upload(workspace, "/".join(names), most_bytes=None, stack=stack)
        except UploadError:
            return
        assert os.pread(opened.fd, 100, 0) == b"inside"


def test_a_list_of_files_fills_one_field(serve: Serve, call: Call, workspace: Path) -> None:
    server = serve()
    for name in ("a.txt", "b.txt"):
        (workspace / name).write_text(f"this is {name}")
    part = {"path": "${files}", "content_type": "text/plain"}
    backend = {"url": server.url, "method": "POST", "multipart": {"files": part}}

    result = call(backend, {"files": ["a.txt", "b.txt"]})

    body = server.seen[0].body.decode()
    assert result.outcome == "ok"
    assert body.count('name="files"') == 2
    assert [body.index(f"this is {name}") > 0 for name in ("a.txt", "b.txt")] == [True, True]
    assert body.index('filename="a.txt"') < body.index('filename="b.txt"')


@pytest.mark.parametrize(
    ("files", "said"),
    [(["a.txt", "../out"], "outside"), (["a.txt"] * 101, "100 files at most")],
)
def test_a_list_of_files_is_checked_file_by_file(
    serve: Serve, call: Call, workspace: Path, files: list[str], said: str
) -> None:
    server = serve()
    (workspace / "a.txt").write_text("a")
    backend = {"url": server.url, "method": "POST", "multipart": {"f": {"path": "${files}"}}}

    with pytest.raises(InvalidArgumentsError, match=said):
        call(backend, {"files": files})

    assert server.seen == []
