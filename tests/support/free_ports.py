"""Free ports of this machine for servers that tests start."""

from __future__ import annotations

import random
import socket
from pathlib import Path

_CLIENT_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_SPAN = 12_000
_FIRST_UNPRIVILEGED = 1_024
_reservations: list[socket.socket] = []


def find_free_ports(count: int) -> list[int]:
    """Returns ports that no process uses now, and that no other call on this machine returns while
    this process runs.

    The kernel doesn't give these ports to clients. Thus a server that restarts finds its port free,
    even if other processes connect somewhere meanwhile.

    Raises:
        OSError: too few ports are free.
    """
    found: list[int] = []
    for port in random.SystemRandom().sample(_candidates(), _SPAN):
        if len(found) == count:
            return found
        if _reserve(port):
            found.append(port)
    raise OSError(f"{count} free ports are needed, and {len(found)} of {_SPAN} are free")


def _candidates() -> range:
    """Returns ports outside the range of clients' ports, where the system tells that range."""
    try:
        first, last = map(int, _CLIENT_RANGE.read_text(encoding="ascii").split())
    except OSError:
        first, last = 49_152, 65_535  # IANA's range for clients, which macOS uses
    below = range(max(first - _SPAN, _FIRST_UNPRIVILEGED), first)
    above = range(last + 1, 65_536)
    chosen = max(below, above, key=len)
    # Some containers give nearly all ports to clients.
    return chosen if len(chosen) >= _SPAN else range(65_536 - _SPAN, 65_536)


def _reserve(port: int) -> bool:
    """Returns whether the TCP port is free. A UDP socket with the same number marks the port as
    taken for other test processes.
    """
    mark = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        mark.bind(("127.0.0.1", port))
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        mark.close()
        return False
    _reservations.append(mark)
    return True
