"""A line to the namenode that is cut now and then, so that answers get lost of what was done."""

from __future__ import annotations

import contextlib
import random
import socket
import threading

_BYTES = 1 << 16


class CutLine:
    """Takes connections, and leads them on.

    Args:
        port: of the namenode.
        seed: of what is cut.
        share: how many of the answers get lost, and the connection with them.

    Attributes:
        port: that clients take in place of it.
        cuts: how often something was cut.
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
        """Takes no more."""
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
