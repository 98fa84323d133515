"""Server of object stores in this process, and the environment variables of its clients."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import boto3
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


def make_store(address: str, scheme: str) -> Mapping[str, str]:
    """Makes the bucket `BUCKET` on a server; returns the environment variables of clients of a scheme."""
    client = boto3.client(
        "s3",
        endpoint_url=address,
        aws_access_key_id="key",
        aws_secret_access_key="secret",
        region_name="us-east-1",
    )
    client.create_bucket(Bucket=BUCKET)
    if scheme == "s3":
        return {**S3, "AWS_ENDPOINT_URL": address}
    account = {"gcs_base_url": address, "disable_oauth": True, "client_email": ""}
    return {
        "GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(
            {**account, "private_key": "", "private_key_id": ""}
        )
    }
