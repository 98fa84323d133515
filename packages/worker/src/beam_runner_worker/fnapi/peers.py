"""Finds out which process of this machine is at the end of a connection, and whether one is at two ends.

A worker pool does not tell whether its workers are processes, which end, or threads, which do not
seem to. Where the system shows who holds which socket (Linux, for processes of the same user), that
is the answer; everywhere else it is no.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from beam_runner_worker.process_tree import processes

_LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1", "[::1]"})
_PROC = Path("/proc")
_LISTENING, _ESTABLISHED = "0A", "01"


def common_process(listening: str, peer: str) -> int | None:
    """The process that listens at ``listening`` and is also the one at ``peer``; None if none is.

    Args:
        listening: host and port; hosts other than this one are never the same.
        peer: as gRPC names the other end of a connection to this machine.
    """
    other_port = peer.rpartition(":")[2]
    if not other_port.isdigit():
        return None
    return _holder(_listening_sockets(listening), _sockets(int(other_port), _ESTABLISHED))


def process_listening(address: str) -> int | None:
    """The process that listens at host and port, if the host is this one; None if it can't be seen."""
    return _holder(_listening_sockets(address))


def process_at(peer: str) -> int | None:
    """The process at the other end of a connection to this machine; None if it can't be seen.

    Args:
        peer: as gRPC names it.
    """
    port = peer.rpartition(":")[2]
    if not port.isdigit():
        return None
    return _holder(_sockets(int(port), _ESTABLISHED))


def _holder(*wanted: set[str]) -> int | None:
    """The youngest process that holds one of each of these sockets."""
    if not all(wanted):
        return None
    found = (process for process, held in _held_sockets() if all(each & held for each in wanted))
    return next(found, None)


def _listening_sockets(address: str) -> set[str]:
    host, _, port = address.rpartition(":")
    if host.removeprefix("dns:///") not in _LOCAL_HOSTS or not port.isdigit():
        return set()
    return _sockets(int(port), _LISTENING)


def _sockets(port: int, state: str) -> set[str]:
    """The sockets with that local port, as links of open files name them."""
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


def _held_sockets() -> Iterator[tuple[int, set[str]]]:
    """The open files of every process that may be looked at, the youngest first."""
    for process in processes():
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
