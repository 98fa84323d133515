"""Machine with an S3 server: versitygw, whose data survives a kill, or moto, which is already installed."""

from __future__ import annotations

import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from machines import Layout, Network
from waiting import wait_until

BUCKET = "data"
REGION = "us-east-1"
_PORT = 7070
_USER, _SECRET = "tests", "secret-of-tests"
_SECONDS = 60.0
_REQUEST = re.compile(r" s3_(\w+) ")


class S3Machine:
    """Server, its machine, and a bucket.

    Attributes:
        url: URL for clients.
        environment: environment variables of clients.
    """

    def __init__(self, network: Network, layout: Layout, name: str, *flags: str) -> None:
        self._layout = layout
        self.machine = network.machine(name)
        self.url = f"http://{self.machine.address}:{_PORT}"
        self._command = self._command_with(flags)
        self.environment = {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": _USER,
            "AWS_SECRET_ACCESS_KEY": _SECRET,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
        }
        self._make_bucket_before()
        self.start()

    def start(self) -> None:
        """Boots it, again if it was killed, and waits until it answers."""
        self.machine.start(self._layout, self._command, {})
        wait_until(self._answers, _SECONDS, lambda: f"the store answers: {self.machine.log}")

    def _command_with(self, flags: tuple[str, ...]) -> tuple[str, ...]:
        program = shutil.which("versitygw")
        assert program is not None
        where = (str(self._layout.private / "buckets"),)
        keys = ("--access", _USER, "--secret", _SECRET, "--region", REGION)
        logs = ("--quiet", "--access-log", str(self._layout.private / "requests.log"))
        serving = ("--port", f":{_PORT}", "--keep-alive")
        return (program, *serving, *keys, *logs, *flags, "posix", *where)

    def _make_bucket_before(self) -> None:
        # A bucket is a folder.
        (self.machine.disk / "buckets" / BUCKET).mkdir(parents=True)

    def place(self, prefix: str) -> str:
        """Returns the URL of a prefix of the bucket."""
        return f"s3://{BUCKET}/{prefix}"

    @property
    def client(self) -> boto3.client:
        """Returns an S3 client in this process."""
        return boto3.client(
            "s3",
            endpoint_url=self.url,
            aws_access_key_id=_USER,
            aws_secret_access_key=_SECRET,
            region_name=REGION,
            config=Config(connect_timeout=2, read_timeout=5, retries={"max_attempts": 1}),
        )

    def put(self, name: str, contents: bytes) -> None:
        """Stores an object."""
        self.client.put_object(Bucket=BUCKET, Key=name, Body=contents)

    def names(self, prefix: str) -> list[str]:
        """Returns the names of all objects with a prefix."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return [found["Key"] for page in pages for found in page.get("Contents", ())]

    def get(self, name: str) -> bytes:
        """Returns the contents of an object."""
        found: bytes = self.client.get_object(Bucket=BUCKET, Key=name)["Body"].read()
        return found

    def requests(self) -> Counter[str]:
        """Returns the number of requests of each kind."""
        return Counter(_REQUEST.findall((self.machine.disk / "requests.log").read_text()))

    def _answers(self) -> bool:
        try:
            self.client.list_buckets()
        except (BotoCoreError, ClientError):
            return False
        return True


class MotoMachine(S3Machine):
    """Machine with moto, which needs no Go, and whose data doesn't survive a stop."""

    def start(self) -> None:
        super().start()
        self.client.create_bucket(Bucket=BUCKET)

    def _command_with(self, flags: tuple[str, ...]) -> tuple[str, ...]:
        return (sys.executable, "-m", "moto.server", "-H", "0.0.0.0", "-p", str(_PORT))

    def _make_bucket_before(self) -> None:
        """Does nothing: the bucket is created after the start of the server."""


@contextmanager
def s3_machine(
    network: Network,
    layout: Layout,
    name: str = "store",
    *flags: str,
    kind: type[S3Machine] = S3Machine,
) -> Iterator[S3Machine]:
    """Runs a store for the block; flags are versitygw's flags."""
    made = kind(network, layout, name, *flags)
    try:
        yield made
    finally:
        made.machine.stop()
