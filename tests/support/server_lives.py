"""Server that is stopped and restarted on one port and one state folder."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from job_server import PROGRAM, JobServerProcess
from jobs import Pipelines
from waiting import wait_until

GONE_SECONDS = 60.0


class ServerLives:
    """Consecutive processes of one server.

    Attributes:
        state: state folder.
        server: current process of the server.
    """

    def __init__(self, temporary: Path, state: Path, placement: tuple[str, ...]) -> None:
        self._temporary = temporary
        self._flags = (f"--state-dir={state}", *placement)
        self.state = state
        self.server = JobServerProcess(temporary, *self._flags)
        self._port = self.address.rpartition(":")[2]

    @property
    def address(self) -> str:
        return self.server.address

    @property
    def embedded(self) -> Pipelines:
        """Returns pipelines without an environment option."""
        return Pipelines(self.address, "embedded", [])

    def kill_server_process(self) -> None:
        """Kills only the server process; its child processes exit by themselves."""
        self.server.process.kill()
        self.server.process.wait(GONE_SECONDS)
        wait_until(
            lambda: not self.server.processes(),
            GONE_SECONDS,
            lambda: f"processes end: {self.server.processes()}",
        )

    def start_next_process(self, *flags: str, program: Sequence[str] = PROGRAM) -> None:
        """Starts the next process of the server."""
        flags = (*self._flags, f"--job-port={self._port}", *flags)
        self.server = JobServerProcess(self._temporary, *flags, program=program)
        sparks = 0 if "--without-spark" in flags else 1
        assert len(list(self._temporary.glob("beam-spark-*/"))) == sparks

    def restart(self, *flags: str) -> None:
        """Stops the server, which leaves its jobs, and starts it again."""
        self.server.stop()
        self.start_next_process(*flags)


@contextmanager
def server_lives(state: Path, placement: tuple[str, ...]) -> Iterator[ServerLives]:
    """Yields a running server; at the end, no process and no file may stay."""
    with tempfile.TemporaryDirectory(prefix="t", ignore_cleanup_errors=True) as temporary:
        lives = ServerLives(Path(temporary), state, placement)
        yield lives
        lives.server.kill()
