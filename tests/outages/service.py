"""Program of an external service: it emits numbers to sources, and stores the writes of sinks.

| request | response |
|---|---|
| `GET /numbers/NAME` | current count of numbers for this source, which grows by `RATE` per second |
| `PUT /sink/NAME` with numbers, one per line | stores the numbers |
| `GET /sink/NAME` | JSON: count of written numbers, and count of distinct numbers |
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
    """Handler of one request per connection."""

    def do_GET(self) -> None:
        """Responds to a source, or to a reader of a sink's data."""
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
        """Stores the writes of a sink."""
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
