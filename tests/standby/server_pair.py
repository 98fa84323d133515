"""An active server and a standby server on one store, behind one address for clients."""

from __future__ import annotations

import signal
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from beam_runner_jobservices.channels import Credentials
from beam_runner_jobservices.relay import Relay
from free_ports import find_free_ports
from job_server import JobServerProcess
from neighbours import BUCKET, OutageProxy, Store

FENCED = 1
"""Exit code of a server whose state another server has taken over."""
_EXIT_SECONDS = 120.0
_START_SECONDS = 300.0


class _Member:
    """One server of the pair, with its link to the store."""

    def __init__(self, store: Store, temporary: Path, flags: tuple[str, ...]) -> None:
        self.link = OutageProxy(int(store.direct.rpartition(":")[2]))
        self.server = JobServerProcess(
            temporary,
            *flags,
            environment={**store.environment, "AWS_ENDPOINT_URL": self.link.url},
        )


class ServerPair:
    """Consecutive active servers, each with a standby server.

    Attributes:
        port: port of the address for clients, which stays the same.
        takeovers: time in seconds of each takeover, from the loss to the end of the start.
    """

    def __init__(self, store: Store, folder: Path, placement: tuple[str, ...]) -> None:
        self._store = store
        self._folder = folder
        self._flags = (
            f"--state-dir=s3://{BUCKET}/state",
            f"--data-dir=s3://{BUCKET}/data",
            *placement,
        )
        self._members: list[_Member] = []
        self._threads = ThreadPoolExecutor()
        self._relay = ExitStack()
        self.port = find_free_ports(1)[0]
        self.takeovers: list[float] = []
        self._active = self._start()
        self._standby = self._start_standby()
        self._relay_to_active()

    @property
    def address(self) -> str:
        """Address of the Job API."""
        return f"localhost:{self.port}"

    def lose_active(self, kind: str) -> None:
        """Loses the active server by ``kill``, ``stall`` or ``unreachable`` store; waits until the standby server serves.

        Afterwards the lost server gets back what it lost, and must exit as fenced.
        """
        lost, began = self._active, time.monotonic()
        if kind == "unreachable":
            lost.link.set_mode("refuse")
        else:
            lost.server.process.send_signal(signal.SIGKILL if kind == "kill" else signal.SIGSTOP)
        self._active = self._standby.result(_START_SECONDS)
        self.takeovers.append(time.monotonic() - began)
        self._relay_to_active()
        if kind == "unreachable":
            lost.link.set_mode("pass")
        elif kind == "stall":
            lost.server.process.send_signal(signal.SIGCONT)
        code = lost.server.process.wait(_EXIT_SECONDS)
        assert code == (-signal.SIGKILL if kind == "kill" else FENCED), lost.server.log[-5:]
        lost.server.kill()
        lost.link.close()
        self._standby = self._start_standby()

    def close(self) -> None:
        """Kills all servers and removes their files."""
        self._relay.close()
        for member in self._members:
            member.server.kill()
        self._store.close()
        self._threads.shutdown(wait=False)

    def _start(self, *flags: str) -> _Member:
        temporary = Path(tempfile.mkdtemp(prefix="t", dir=self._folder))
        member = _Member(self._store, temporary, (*self._flags, *flags))
        self._members.append(member)
        return member

    def _start_standby(self) -> Future[_Member]:
        return self._threads.submit(self._start, "--standby")

    def _relay_to_active(self) -> None:
        self._relay.close()
        relay = Relay(self._active.server.address, Credentials(), self.port)
        self._relay.enter_context(relay)


@contextmanager
def server_pair(placement: tuple[str, ...]) -> Iterator[ServerPair]:
    """Yields a pair of servers; at the end, no process stays."""
    with tempfile.TemporaryDirectory(prefix="t", ignore_cleanup_errors=True) as folder:
        pair = ServerPair(Store(), Path(folder), placement)
        try:
            yield pair
        finally:
            pair.close()
