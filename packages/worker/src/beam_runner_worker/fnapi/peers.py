"""Identification of the local process at the other end of a network connection.

A worker pool doesn't report whether its workers are processes or threads of its own process. The
runner finds out from the sockets of processes, which Linux shows for processes of the same user. On
other systems the result is unknown.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from beam_runner_worker.process_tree import list_processes

_LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1", "[::1]"})
_PROC = Path("/proc")
_LISTENING, _ESTABLISHED = "0A", "01"


def find_common_process(listening: str, peer: str) -> int | None:
    """Returns the local process that both listens at one address and holds the other end of a
    connection; None if no process does both, or if the process is unknown.

    Args:
        listening: host and port of the listening process. A remote host never matches.
        peer: gRPC's name of the other end of the connection.
    """
    other_port = peer.rpartition(":")[2]
    if not other_port.isdigit():
        return None
    return _find_socket_owner(
        _find_listening_sockets(listening), _find_sockets(int(other_port), _ESTABLISHED)
    )


def find_listening_process(address: str) -> int | None:
    """Returns the local process that listens at a host and port; None for a remote host or if the
    process isn't visible.
    """
    return _find_socket_owner(_find_listening_sockets(address))


def find_peer_process(peer: str) -> int | None:
    """Returns the local process at the other end of a connection; None if the process isn't visible.

    Args:
        peer: gRPC's name of the other end.
    """
    port = peer.rpartition(":")[2]
    if not port.isdigit():
        return None
    return _find_socket_owner(_find_sockets(int(port), _ESTABLISHED))


def _find_socket_owner(*wanted: set[str]) -> int | None:
    """Returns the youngest process that has at least one socket of each set open."""
    if not all(wanted):
        return None
    found = (
        process for process, held in _list_process_sockets() if all(each & held for each in wanted)
    )
    return next(found, None)


def _find_listening_sockets(address: str) -> set[str]:
    host, _, port = address.rpartition(":")
    if host.removeprefix("dns:///") not in _LOCAL_HOSTS or not port.isdigit():
        return set()
    return _find_sockets(int(port), _LISTENING)


def _find_sockets(port: int, state: str) -> set[str]:
    """Returns the sockets with a local port and a state, in the form of the links in ``/proc/PID/fd``."""
    found = set()
    for table in ("tcp", "tcp6"):
        try:
            lines = (_PROC / "net" / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == state and int(fields[1].rpartition(":")[2], 16) == port:
                found.add(f"socket:[{fields[9]}]")
    return found


def _list_process_sockets() -> Iterator[tuple[int, set[str]]]:
    """Yields each visible process with its open files, as the targets of the links in
    ``/proc/PID/fd``; the youngest process comes first.
    """
    for process in list_processes():
        folder = f"{_PROC}/{process}/fd/"
        try:
            descriptors = os.listdir(folder)
        except OSError:
            continue
        held = set()
        for descriptor in descriptors:
            try:
                held.add(os.readlink(folder + descriptor))
            except OSError:
                continue
        yield process, held
