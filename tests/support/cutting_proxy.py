"""Proxy of a TCP connection that cuts it at a chosen command, before or after the server gets the command."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_SIZE = 1 << 16
_PAUSE = 0.2
"""Seconds from the last command to the cut, so that the server completes the command."""


class CuttingProxy:
    """Proxy to a port of this machine.

    Args:
        target: port of the server.

    Attributes:
        port: port for clients.
        cuts: number of cut connections.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.cuts = 0
        self._command = b""
        self._reaches_server = False
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_at(self, command: bytes, *, reaches_server: bool) -> None:
        """Cuts the next connection whose client sends a command.

        Args:
            command: text of the command.
            reaches_server: whether the server gets the command. The client gets no reply.
        """
        self._command, self._reaches_server = command, reaches_server

    def close(self) -> None:
        """Accepts no more connections."""
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                for source, target in ((client, server), (server, client)):
                    threading.Thread(
                        target=self._forward, args=(source, target, source is client), daemon=True
                    ).start()

    def _forward(self, source: socket.socket, target: socket.socket, is_client: bool) -> None:
        with suppress(OSError):
            while data := source.recv(_SIZE):
                if is_client and self._command and self._command in data:
                    self._command = b""
                    self._cut(data, source, target)
                    return
                target.sendall(data)
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _cut(self, data: bytes, client: socket.socket, server: socket.socket) -> None:
        self.cuts += 1
        client.shutdown(socket.SHUT_RDWR)
        if self._reaches_server:
            server.sendall(data)
            threading.Event().wait(_PAUSE)
        server.shutdown(socket.SHUT_RDWR)


@contextmanager
def run_cutting_proxy(target: int) -> Iterator[CuttingProxy]:
    """Runs a proxy for the block."""
    proxy = CuttingProxy(target)
    try:
        yield proxy
    finally:
        proxy.close()
