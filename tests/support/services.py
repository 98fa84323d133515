"""Beam service as a separate process on a free port."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from waiting import wait_until

START_SECONDS = 60.0


@contextmanager
def run_service(
    command: Sequence[str], port_flag: str, environment: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Starts a service for the block and yields its address.

    Args:
        command: command that starts the service.
        port_flag: text before the port in the last argument, as in ``--port=``.
        environment: environment variables; by default, the variables of the test.
    """
    with socket.create_server(("localhost", 0)) as taken:
        port = taken.getsockname()[1]
    process = subprocess.Popen(
        [*command, f"{port_flag}{port}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
    )
    try:
        wait_until(lambda: _accepts_connections(port), START_SECONDS, f"{command[0]} answers")
        yield f"localhost:{port}"
    finally:
        process.terminate()
        process.wait(30)


def _accepts_connections(port: int) -> bool:
    try:
        socket.create_connection(("localhost", port), 1).close()
    except OSError:
        return False
    return True
