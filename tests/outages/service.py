"""A system outside of the runner, as a program: it gives numbers to sources, and keeps what sinks write.

| request | answer |
|---|---|
| `GET /numbers/NAME` | how many numbers there are for this source so far, `RATE` more each second |
| `PUT /sink/NAME` with numbers, a line each | keeps them |
| `GET /sink/NAME` | JSON: how many were written, and how many different ones |
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter, defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

RATE = 40.0
_LOCK = threading.Lock()
_BEGUN: dict[str, float] = {}
_WRITTEN: defaultdict[str, Counter[int]] = defaultdict(Counter)


class Handler(BaseHTTPRequestHandler):
    """Answers one request for each connection."""

    def do_GET(self) -> None:
        """Answers a source, or who looks at what a sink has written."""
        kind, name = self.path.strip("/").split("/")
        with _LOCK:
            if kind == "numbers":
                since = time.monotonic() - _BEGUN.setdefault(name, time.monotonic())
                body = str(int(since * RATE))
            else:
                written = _WRITTEN[name]
                body = json.dumps({"writes": written.total(), "different": len(written)})
        self._answer(body)

    def do_PUT(self) -> None:
        """Keeps what a sink writes."""
        _, name = self.path.strip("/").split("/")
        lines = self.rfile.read(int(self.headers["Content-Length"])).split()
        with _LOCK:
            _WRITTEN[name].update(map(int, lines))
        self._answer("")

    def log_message(self, *_: Any) -> None:
        """Logs nothing."""

    def _answer(self, body: str) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()
