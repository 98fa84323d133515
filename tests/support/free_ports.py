"""Free ports of this machine for servers that tests start."""

from __future__ import annotations

import socket


def find_free_ports(count: int) -> list[int]:
    """Returns ports that no process uses now."""
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports
