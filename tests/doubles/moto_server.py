"""S3 server in this process, and the environment variables of its clients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from atomic_moto import make_creation_atomic
from moto.server import ThreadedMotoServer

BUCKET = "bucket"
S3 = {
    "AWS_ALLOW_HTTP": "true",
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_REGION": "us-east-1",
}


@contextmanager
def moto_server() -> Iterator[str]:
    """Address of the server."""
    make_creation_atomic()
    server = ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()
