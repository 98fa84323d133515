"""Azurite, Microsoft's emulator of Azure's object store, as a process, and its clients' environment."""

from __future__ import annotations

import base64
import datetime
import hashlib
import hmac
import os
import shutil
import socket
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest
from free_ports import find_free_ports
from moto_server import BUCKET
from waiting import wait_until

FOLDER = "BEAM_AZURITE"
"""Environment variable with the folder in which npm has installed Azurite."""
_ACCOUNT = "devstoreaccount1"
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Public key of the emulator's only account."""


@contextmanager
def azurite_server() -> Iterator[Mapping[str, str]]:
    """Yields the environment variables of clients of a new emulator with the container `BUCKET`.

    Skips the test if the emulator isn't installed.
    """
    if FOLDER not in os.environ or shutil.which("node") is None:
        pytest.skip(f"NOT RUN: {FOLDER} names no Azurite, which `nox -s sinks` installs")
    (port,) = find_free_ports(1)
    program = f"{os.environ[FOLDER]}/node_modules/azurite/dist/src/blob/main.js"
    options = ("--silent", "--skipApiVersionCheck", "--disableTelemetry", "--inMemoryPersistence")
    address = ("--blobHost", "127.0.0.1", "--blobPort", str(port))
    server = subprocess.Popen(["node", program, *address, *options], stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: _answers(port), 120, "Azurite")
        url = f"http://127.0.0.1:{port}"
        _create_container(url)
        yield {
            "AZURE_STORAGE_USE_EMULATOR": "true",
            "AZURITE_BLOB_STORAGE_URL": url,
            "AZURE_ALLOW_HTTP": "true",
            "AZURE_STORAGE_ACCOUNT_NAME": _ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": _KEY,
        }
    finally:
        server.kill()
        server.wait()


def _answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def _create_container(url: str) -> None:
    """Sends the only request that the store's client can't make."""
    now = datetime.datetime.now(datetime.UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
    headers = {"x-ms-date": now, "x-ms-version": "2021-12-02"}
    named = "".join(f"{name}:{value}\n" for name, value in headers.items())
    resource = f"/{_ACCOUNT}/{_ACCOUNT}/{BUCKET}\nrestype:container"
    text = "PUT" + "\n" * 12 + named + resource
    key = base64.b64decode(_KEY)
    signature = base64.b64encode(hmac.new(key, text.encode(), hashlib.sha256).digest()).decode()
    headers["Authorization"] = f"SharedKey {_ACCOUNT}:{signature}"
    where = f"{url}/{_ACCOUNT}/{BUCKET}?restype=container"
    urllib.request.urlopen(urllib.request.Request(where, method="PUT", headers=headers)).close()
