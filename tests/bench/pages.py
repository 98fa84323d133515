"""This runner with its pages and without them: what they cost while nobody looks, and while somebody does."""

from __future__ import annotations

import json
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from targets import Target, free_port, portable, server_process

WITHOUT = "without pages"
_PAUSE_SECONDS = 0.5
_LIMIT_SECONDS = 30.0


class Viewer:
    """Somebody who has the page of each job open while it runs: follows its stream as the page's script does."""

    def __init__(self, pages: str) -> None:
        self._pages = pages
        self._over = threading.Event()
        self.events = 0
        """How many times a page has changed under the viewer's eyes."""
        self._thread = threading.Thread(target=self._look, name="viewer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Looks no more."""
        self._over.set()
        self._thread.join(_LIMIT_SECONDS)

    def _look(self) -> None:
        while not self._over.wait(_PAUSE_SECONDS):
            try:
                jobs = json.loads(self._read("/api/v1/jobs"))["jobs"]
                running = [job["id"] for job in jobs if job["state"] == "RUNNING"]
                if running:
                    self._follow(running[-1])
            except (urllib.error.URLError, TimeoutError, ConnectionError):
                # The next look finds the server, if it is there.
                continue

    def _follow(self, job: str) -> None:
        self._read(f"/jobs/{job}")
        with self._open(f"/jobs/{job}/events?page=") as stream:
            for line in stream:
                self.events += line.startswith(b"event: parts")
                if line.startswith((b"event: end", b"event: gone")) or self._over.is_set():
                    return

    def _read(self, path: str) -> bytes:
        with self._open(path) as answer:
            found: bytes = answer.read()
            return found

    def _open(self, path: str) -> Any:
        return urllib.request.urlopen(f"{self._pages}{path}", timeout=_LIMIT_SECONDS)


@contextmanager
def targets_of_pages(environment: str, flags: tuple[str, ...]) -> Iterator[list[Target]]:
    """Three servers alike: without pages, with pages at which nobody looks, and with a viewer of each job."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench")))
        pages = [free_port(), free_port()]
        servers = {
            WITHOUT: ("--serve-http=false",),
            "nobody looks": (f"--web-port={pages[0]}",),
            "a viewer": (f"--web-port={pages[1]}",),
        }
        targets = []
        for title, own in servers.items():
            endpoint = stack.enter_context(server_process((*flags, *own)))
            targets.append(Target(title, portable(endpoint, environment), folder))
            stack.callback(targets[-1].close)
        viewer = Viewer(f"http://localhost:{pages[1]}")
        stack.callback(viewer.close)
        yield targets
        if not viewer.events:
            raise SystemExit("the viewer has seen nothing change: what was measured is no viewer")
