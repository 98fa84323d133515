"""Moto's S3 server with atomic exclusive creation: ``python atomic_moto.py -H HOST -p PORT``.

Moto checks ``If-None-Match`` and stores the object in two steps, so two concurrent requests can both
create it. A real store lets one of them fail.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from moto import server
from moto.moto_server import threaded_moto_server
from moto.moto_server.werkzeug_app import DomainDispatcherApplication

_lock = threading.Lock()


class AtomicCreation(DomainDispatcherApplication):
    """Application that runs exclusive creations one after the other."""

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if "HTTP_IF_NONE_MATCH" not in environ:
            return super().__call__(environ, start_response)
        with _lock:
            return super().__call__(environ, start_response)


def make_creation_atomic() -> None:
    """Makes servers of this process use `AtomicCreation`."""
    server.DomainDispatcherApplication = AtomicCreation
    threaded_moto_server.DomainDispatcherApplication = AtomicCreation


if __name__ == "__main__":
    make_creation_atomic()
    server.main()
