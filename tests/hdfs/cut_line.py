"""Proxy to the namenode that closes connections at random, so that responses to completed requests get lost."""

from __future__ import annotations

import contextlib
import random
import socket
import threading

_BYTES = 1 << 16


class CutLine:
    """Proxy that accepts connections, and forwards them.

    Args:
        port: port of the namenode.
        seed: seed of the lost responses.
        share: share of the responses that get lost together with their connection.

    Attributes:
        port: port for clients.
        cuts: number of lost responses.
    """

    def __init__(self, port: int, seed: int, share: float) -> None:
        self._target = port
        self._choose = random.Random(seed)
        self._share = share
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Accepts no further connections."""
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._target))
                for one, other, cuts in ((near, far, False), (far, near, True)):
                    threading.Thread(
                        target=self._lead, args=(one, other, cuts), daemon=True
                    ).start()

    def _lead(self, one: socket.socket, other: socket.socket, cuts: bool) -> None:
        with contextlib.suppress(OSError):
            while some := one.recv(_BYTES):
                if cuts and self._choose.random() < self._share:
                    self.cuts += 1
                    break
                other.sendall(some)
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
