"""Packages made by hand, and a registry on loopback that serves them to pip, uv and npm."""

import base64
import gzip
import hashlib
import io
import json
import tarfile
import threading
import zipfile
from collections.abc import Mapping
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def wheel(
    name: str, version: str = "1.0", files: Mapping[str, str] | None = None, requires: str = ""
) -> tuple[str, bytes]:
    """Return the file name and the bytes of a wheel; without files it has one module."""
    content = dict(files or {f"{name}.py": f"VERSION = {version!r}\n"})
    info = f"{name}-{version}.dist-info"
    needs = f"Requires-Dist: {requires}\n" if requires else ""
    content[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}"
    )
    content[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    rows = [f"{path},sha256={_digest(text)},{len(text)}\n" for path, text in content.items()]
    content[f"{info}/RECORD"] = "".join(rows) + f"{info}/RECORD,,\n"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path, text in content.items():
            archive.writestr(path, text)
    return f"{name}-{version}-py3-none-any.whl", packed.getvalue()


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


def tarball(files: Mapping[str, str], top: str = "package") -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path, text in files.items():
            entry = tarfile.TarInfo(f"{top}/{path}")
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return gzip.compress(packed.getvalue(), mtime=0)  # the same bytes in the next second, too


def integrity(data: bytes) -> str:
    return "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()


class Registry:
    """Serves what was added. `held` requests wait; `asked` are the paths of all requests."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.open = threading.Event()
        self.open.set()
        self.arrived = threading.Event()
        self._pages: dict[str, tuple[str, bytes]] = {}
        self._links: dict[str, list[str]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.open.set()
        self._server.shutdown()
        self._server.server_close()

    def add_wheel(
        self, name: str, version: str = "1.0", *, requires_python: str = "", **options: Any
    ) -> str:
        """Serve a wheel; return the checksum of its file."""
        file, data = wheel(name, version, **options)
        self._add_file(name, file, data, requires_python)
        return hashlib.sha256(data).hexdigest()

    def add_source(
        self, name: str, version: str = "1.0", files: Mapping[str, str] | None = None
    ) -> str:
        """Serve a package that would have to be built, by code of its own; return its checksum."""
        setup = "open('/tmp/built', 'w')\nraise SystemExit('setup.py ran')\n"
        content = {"PKG-INFO": f"Name: {name}\n", **(files or {"setup.py": setup})}
        data = tarball(content, f"{name}-{version}")
        self._add_file(name, f"{name}-{version}.tar.gz", data)
        return hashlib.sha256(data).hexdigest()

    def _add_file(self, name: str, file: str, data: bytes, requires_python: str = "") -> None:
        self._pages[f"/files/{file}"] = ("application/octet-stream", data)
        wants = f' data-requires-python="{escape(requires_python)}"' if requires_python else ""
        self._links.setdefault(name, []).append(f'<a href="/files/{file}"{wants}>{file}</a>')
        self._pages[f"/simple/{name}/"] = ("text/html", "\n".join(self._links[name]).encode())

    def add_npm(
        self, name: str, version: str, files: Mapping[str, str], **fields: Any
    ) -> dict[str, Any]:
        """Serve a package of npm; return its entry for a lock file."""
        manifest = {"name": name, "version": version, **fields}
        data = tarball({"package.json": json.dumps(manifest), **files})
        file = f"/npm/-/{name.replace('/', '-')}-{version}.tgz"
        self._pages[file] = ("application/octet-stream", data)
        address = self.address + file
        manifest["dist"] = {"tarball": address, "integrity": integrity(data)}
        packument = {
            "name": name,
            "dist-tags": {"latest": version},
            "versions": {version: manifest},
        }
        page = ("application/json", json.dumps(packument).encode())
        self._pages[f"/npm/{name}"] = self._pages[f"/npm/{name.replace('/', '%2f')}"] = page
        return {"version": version, "resolved": address, "integrity": integrity(data)}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                self._answer(b"HEAD")

            def do_GET(self) -> None:
                registry.asked.append(self.path)
                self._answer(b"GET")

            def _answer(self, method: bytes) -> None:
                registry.arrived.set()
                registry.open.wait()
                kind, data = registry._pages.get(self.path, ("", b""))
                try:
                    self.send_response(200 if kind else 404)
                    self.send_header("Content-Type", kind or "text/plain")
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    if method == b"GET":
                        self.wfile.write(data)
                except OSError:
                    return  # whoever asked was killed

            def log_message(self, *_words: object) -> None:
                pass

        return Handler
