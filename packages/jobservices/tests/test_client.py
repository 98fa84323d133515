"""Tests of the client's connection to a server."""

from __future__ import annotations

import select
import socket
import threading
import time

from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.server import JobServer

DELAY_SECONDS = 0.6
"""A delay of each new connection, longer than the pauses between connection attempts."""


def forward_with_delay(listener: socket.socket, port: int) -> None:
    """Forwards the connections of a listener to a port of this machine until the listener is closed."""
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_forward_connection, args=(client, port), daemon=True).start()


def _forward_connection(client: socket.socket, port: int) -> None:
    time.sleep(DELAY_SECONDS)
    with client, socket.create_connection(("localhost", port)) as server:
        while True:
            for source in select.select((client, server), (), ())[0]:
                data = source.recv(1 << 16)
                if not data:
                    return
                (server if source is client else client).sendall(data)


def test_client_call_succeeds_over_slow_connection(server: JobServer) -> None:
    port = int(server.address.rpartition(":")[2])
    with socket.create_server(("localhost", 0)) as listener:
        threading.Thread(target=forward_with_delay, args=(listener, port), daemon=True).start()
        with JobClient(f"localhost:{listener.getsockname()[1]}") as client:
            assert client.list_jobs() == ()
