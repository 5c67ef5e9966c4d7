"""Makes a request from its plan, with files and multipart bodies."""

import asyncio
import json
import os
import re
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from mimetypes import guess_type
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote

from skillpouch.errors import OutsideWorkspaceError, ToolFaultError
from skillpouch.net.http.bodies import (
    FilePart,
    JsonBody,
    Multipart,
    TextBody,
    WholeArguments,
    value_of,
)
from skillpouch.net.http.guard import ExchangeError, Url, read_url
from skillpouch.net.http.plan import RequestPlan
from skillpouch.templates.placeholders import text_of
from skillpouch.workspace.files import WorkspaceFiles

_PIECE_BYTES = 256 * 1024


class UploadError(ValueError):
    """A file cannot be sent; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadFile:
    """An opened and checked file: exactly `size` bytes of it are sent."""

    fd: int
    name: str
    size: int

    async def pieces(self) -> AsyncIterator[bytes]:
        """Read from the start each time: a request may have to be sent again."""
        place = 0
        while place < self.size:
            most = min(_PIECE_BYTES, self.size - place)
            piece = await asyncio.to_thread(os.pread, self.fd, most, place)
            if not piece:
                raise ExchangeError("upload", f"{self.name} became shorter while it was sent")
            place += len(piece)
            yield piece


def open_upload(
    workspace: Path, path: str, *, most_bytes: int | None, stack: ExitStack
) -> UploadFile:
    """Open a regular file of the workspace, as Skillpouch's own tools do; `stack` closes it."""
    try:
        with WorkspaceFiles(workspace).reading(path) as opened:
            # A descriptor of our own: errors while sending must not be reported as errors of the
            # path.
            file = os.dup(opened.file.fileno())
    except (OutsideWorkspaceError, ToolFaultError) as error:
        raise UploadError("; ".join(filter(None, (str(error), error.hint)))) from None
    stack.callback(os.close, file)
    if most_bytes is not None and opened.size > most_bytes:
        raise UploadError(f"{path}: it has {opened.size:,} bytes, the limit is {most_bytes:,}")
    return UploadFile(fd=file, name=PurePath(opened.path).name, size=opened.size)


# Percent-encoded, as browsers do: a quote or a line break would end the name.
_BREAKING = re.compile(r'[\x00-\x1f\x7f"\\]')


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The body of a request: pieces of known size, which can be sent again for a retry."""

    content_type: str
    pieces: tuple[bytes | UploadFile, ...]

    @property
    def size(self) -> int:
        return sum(len(p) if isinstance(p, bytes) else p.size for p in self.pieces)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            if isinstance(piece, bytes):
                yield piece
            else:
                async for part in piece.pieces():
                    yield part


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    file: UploadFile
    filename: str
    content_type: str = ""

    @property
    def type(self) -> str:
        return self.content_type or guess_type(self.filename)[0] or "application/octet-stream"


def multipart_content(fields: Sequence[tuple[str, str | Upload]]) -> Content:
    """Return the fields as `multipart/form-data`."""
    boundary = secrets.token_hex(16)  # random, so that no value can contain it
    pieces: list[bytes | UploadFile] = []
    for name, value in fields:
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{_quoted(name)}"'
        if isinstance(value, Upload):
            head += f'; filename="{_quoted(value.filename)}"\r\nContent-Type: {value.type}'
            pieces += [f"{head}\r\n\r\n".encode(), value.file, b"\r\n"]
        else:
            pieces.append(f"{head}\r\n\r\n{value}\r\n".encode())
    pieces.append(f"--{boundary}--\r\n".encode())
    return Content(content_type=f"multipart/form-data; boundary={boundary}", pieces=tuple(pieces))


def _quoted(text: str) -> str:
    return _BREAKING.sub(lambda match: f"%{ord(match[0]):02X}", text)


_JSON = "application/json"
_FORM = "application/x-www-form-urlencoded"
_ACCEPT = {"buffered": "application/json, */*;q=0.8", "sse": "text/event-stream"}
_MOST_FILES = 100  # per field: each file is open until the request is sent
Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """`own_headers` are those of the skill; `all_headers` adds Skillpouch's own."""

    method: str
    url: Url
    own_headers: Headers = ()
    accept: str = "*/*"
    content: Content | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """What fills a plan: `most_bytes` bounds each file, `stack` closes them."""

    arguments: Mapping[str, Any]
    secrets: Mapping[str, str]
    workspace: Path
    stack: ExitStack
    most_bytes: int | None = None


def make_request(plan: RequestPlan, filling: Filling) -> HttpRequest:
    """Fill a plan.

    Raises FillError for a value that does not fit its place, UploadError for a file that cannot be
    sent.
    """
    arguments, given = filling.arguments, filling.secrets
    filled = ((name, template.fill(arguments, given)) for name, template in plan.headers)
    # The content type names the boundary, which is chosen where the parts are written.
    ours = "content-type" if isinstance(plan.body, Multipart) else ""
    return HttpRequest(
        method=plan.method,
        url=read_url(_with_query(plan, arguments, plan.url.fill(arguments, given))),
        own_headers=tuple(
            (name, value.strip())
            for name, value in filled
            if value is not None and name.lower() != ours
        ),
        accept=_ACCEPT.get(plan.shape.mode, "*/*"),
        content=_content(plan, filling),
    )


def _with_query(plan: RequestPlan, arguments: Mapping[str, Any], url: str) -> str:
    if not plan.puts_rest_into_query:
        return url
    rest = {name: value for name, value in arguments.items() if name not in plan.used}
    query = _pairs(rest)
    return f"{url}{'&' if '?' in url else '?'}{query}" if query else url


def _pairs(values: Mapping[str, Any]) -> str:
    """Return values as pairs of a query or form: a list repeats its name, null is left out."""
    found: list[str] = []
    for name, value in values.items():
        items = value if isinstance(value, list | tuple) else [value]
        found += [
            f"{quote(name, safe='')}={quote(text_of(item), safe='')}"
            for item in items
            if item is not None
        ]
    return "&".join(found)


def _content(plan: RequestPlan, filling: Filling) -> Content | None:
    arguments, given = filling.arguments, filling.secrets
    match plan.body:
        case None:
            return None
        case WholeArguments(as_form=as_form):
            return _values(dict(arguments), as_form=as_form)
        case JsonBody(template=template, as_form=as_form):
            return _values(template.fill(arguments, given), as_form=as_form)
        case TextBody(template=text):
            return Content(content_type=_FORM, pieces=(text.fill(arguments, given).encode(),))
        case FilePart() as part:
            upload = _upload(part, filling)
            return Content(content_type=upload.type, pieces=(upload.file,))
        case Multipart() as multipart:
            return multipart_content(_fields(multipart, filling))


def _values(value: Any, *, as_form: bool) -> Content:
    if as_form and isinstance(value, dict):
        return Content(content_type=_FORM, pieces=(_pairs(value).encode(),))
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Content(content_type=_JSON, pieces=(text.encode(),))


def _fields(multipart: Multipart, filling: Filling) -> list[tuple[str, str | Upload]]:
    found: list[tuple[str, str | Upload]] = []
    for name, template in multipart.fields:
        if template.names and all(filling.arguments.get(each) is None for each in template.names):
            continue  # no argument was passed that fills this field
        if isinstance(template, FilePart):
            found += [(name, _upload(template, each)) for each in _one_by_one(template, filling)]
            continue
        value = template.fill(filling.arguments, filling.secrets)
        items = value if isinstance(value, list) else [value]
        found += [(name, text_of(item)) for item in items if item is not None]
    return found


def _one_by_one(part: FilePart, filling: Filling) -> Iterator[Filling]:
    """Yield the arguments for each file of a field: a list of paths makes one file per path."""
    arguments = filling.arguments
    lists = {name for name in part.path.names if isinstance(arguments.get(name), list)}
    if not lists:
        yield filling
        return
    if len({len(arguments[name]) for name in lists}) > 1:
        raise UploadError(f"{' and '.join(sorted(lists))} are lists of different lengths")
    if any(len(arguments[name]) > _MOST_FILES for name in lists):
        raise UploadError(f"a field takes {_MOST_FILES} files at most")
    for items in zip(*(arguments[name] for name in lists), strict=True):
        yield replace(filling, arguments={**arguments, **dict(zip(lists, items, strict=True))})


def _upload(part: FilePart, filling: Filling) -> Upload:
    arguments, given = filling.arguments, filling.secrets
    file = open_upload(
        filling.workspace,
        part.path.fill(arguments, given),
        most_bytes=filling.most_bytes,
        stack=filling.stack,
    )
    named = part.filename.fill(arguments, given) if part.filename else ""
    return Upload(file=file, filename=named or file.name, content_type=part.content_type)


def all_headers(request: HttpRequest, agent: str) -> list[tuple[bytes, bytes]]:
    """Return all headers to send: those that the author declares replace the usual ones."""
    usual = [
        ("Host", request.url.authority),
        ("Accept", request.accept),
        ("Accept-Encoding", "gzip, deflate"),
        ("User-Agent", agent),
    ]
    if request.content is not None:
        usual.append(("Content-Type", request.content.content_type))
        usual.append(("Content-Length", str(request.content.size)))
    kept = [pair for pair in usual if not value_of(pair[0].lower(), request.own_headers)]
    return [(name.encode(), value.encode()) for name, value in (*kept, *request.own_headers)]
