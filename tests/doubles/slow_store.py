"""Server with the part of the S3 protocol that one client needs, and a limited bandwidth."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

_PIECE = 1 << 16
_UPLOAD = "<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>"
_COMPLETE = (
    "<CompleteMultipartUploadResult><ETag>&quot;1&quot;</ETag></CompleteMultipartUploadResult>"
)


class SlowStore(ThreadingHTTPServer):
    """S3 server whose requests share the bandwidth.

    Args:
        seconds: duration of the transfer of 1 MB, seconds.
    """

    daemon_threads = True

    def __init__(self, seconds: float) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._seconds = seconds
        self._line = threading.Lock()
        self.objects: dict[str, bytes] = {}
        self.parts: dict[int, bytes] = {}

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def take(self, size: int) -> None:
        """Sleeps for the duration of the transfer of these bytes."""
        with self._line:
            time.sleep(self._seconds * size / (1 << 20))

    def handle_error(self, *_: Any) -> None:
        """Logs nothing for clients that closed their connection."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: SlowStore

    def do_POST(self) -> None:
        """Starts or completes a multipart upload."""
        self._body()
        if self._query("uploads"):
            self.server.parts.clear()
            self._answer(_UPLOAD.encode())
            return
        parts = self.server.parts
        self.server.objects[urlsplit(self.path).path] = b"".join(parts[n] for n in sorted(parts))
        self._answer(_COMPLETE.encode())

    def do_PUT(self) -> None:
        """Receives a part of an upload."""
        self.server.parts[int(self._query("partNumber"))] = self._body()
        self._answer(b"")

    def do_DELETE(self) -> None:
        """Aborts an upload."""
        self._answer(b"")

    def do_GET(self) -> None:
        """Returns an object or a range of an object, in small chunks."""
        contents = self.server.objects[urlsplit(self.path).path]
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if asked is None:
            self._answer(contents)
            return
        start, last = int(asked[1]), int(asked[2])
        said = {"Content-Range": f"bytes {start}-{last}/{len(contents)}"}
        self._answer(contents[start : last + 1], 206, said)

    def log_message(self, *_: Any) -> None:
        """Logs nothing."""

    def _query(self, name: str) -> str:
        found = parse_qs(urlsplit(self.path).query, keep_blank_values=True).get(name)
        return "" if found is None else found[0] or "yes"

    def _body(self) -> bytes:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.take(len(body))
        return body

    def _answer(
        self, body: bytes, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("ETag", '"1"')
        self.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        for start in range(0, len(body), _PIECE):
            piece = body[start : start + _PIECE]
            self.server.take(len(piece))
            self.wfile.write(piece)


@contextmanager
def slow_store(seconds: float) -> Iterator[SlowStore]:
    """Serves for the time of a ``with``."""
    server = SlowStore(seconds)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
