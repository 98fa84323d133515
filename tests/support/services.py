"""A service of Beam's as a process of its own, on a port that is free: served until a ``with`` ends."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from waiting import wait_until

START_SECONDS = 60.0


@contextmanager
def serving(
    command: Sequence[str], port_flag: str, environment: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Starts a service for the time of a ``with``: its address.

    Args:
        command: what starts it.
        port_flag: what comes before the port in its last argument, as in ``--port=``.
        environment: its environment variables; by default the test's.
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
        wait_until(lambda: _answers(port), START_SECONDS, f"{command[0]} answers")
        yield f"localhost:{port}"
    finally:
        process.terminate()
        process.wait(30)


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("localhost", port), 1).close()
    except OSError:
        return False
    return True
