"""Moto's S3 server with atomic exclusive creation: ``python atomic_moto.py -H HOST -p PORT``.

Moto checks ``If-None-Match`` and stores the object in two steps, so two concurrent requests can both
create it. A real store lets one of them fail.

The server also accepts requests of clients of Google Cloud Storage. Google's XML interface has the
requests of S3, except for the header of exclusive creation and the signature.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from moto import server
from moto.moto_server import threaded_moto_server
from moto.moto_server.werkzeug_app import DomainDispatcherApplication

_lock = threading.Lock()
_SIGNATURE = (
    "AWS4-HMAC-SHA256 Credential=key/20270101/us-east-1/s3/aws4_request,"
    " SignedHeaders=host, Signature=0"
)
"""Signature that moto takes instead of the token of a client of Google Cloud Storage."""


class AtomicCreation(DomainDispatcherApplication):
    """Application that runs exclusive creations one after the other."""

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if not environ.get("HTTP_AUTHORIZATION", "").startswith("AWS4"):
            environ["HTTP_AUTHORIZATION"] = _SIGNATURE
        if environ.get("HTTP_X_GOOG_IF_GENERATION_MATCH") == "0":
            environ["HTTP_IF_NONE_MATCH"] = "*"
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
