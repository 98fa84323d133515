"""Server on a separate machine. After a kill, it restarts on another machine with another address and
name, and an empty disk.

These machines run only the server: clients connect through a relay on their own machine.
"""

from __future__ import annotations

import os
import secrets
import sys
from contextlib import ExitStack
from pathlib import Path

from beam_runner_jobservices.channels import Credentials
from beam_runner_jobservices.relay import Relay
from cluster_site import Site
from free_ports import find_free_ports
from job_server import PROGRAM
from spark_machines import QUICK_JAVA
from waiting import wait_until

_PORT = 8099
_SERVES = "beam-spark-jobserver serves the Beam Job API at"
_START_SECONDS = 400.0
_STOP_SECONDS = 60.0
_LAST_WORDS = 3000


class MovingServer:
    """Consecutive processes of one server, each on a separate machine.

    Args:
        site: cluster of the server.
        folder: folder for the access token, which all machines can read.
        prefix: prefix of the server's data and state in the store.

    Attributes:
        address: address for clients, the same for all processes.
        machine: machine of the latest process.
        lives: number of started processes.
    """

    def __init__(self, site: Site, folder: Path, prefix: str) -> None:
        self._site = site
        self._prefix = prefix
        self._token = folder / "token"
        self._token.write_text(secrets.token_hex())
        self._relay = ExitStack()
        self._relay_port = find_free_ports(1)[0]
        self.address = f"localhost:{self._relay_port}"
        self.lives = 0
        self.go_on()

    def lose(self) -> None:
        """Cuts its machine's power."""
        self.machine.kill()

    def go_on(self) -> None:
        """Starts the server on another machine; waits until it serves."""
        self.lives += 1
        self.machine = self._site.network.machine(f"server-{self.lives}")
        self._relay.close()
        credentials = Credentials(token=self._token.read_text())
        to = f"{self.machine.address}:{_PORT}"
        self._relay.enter_context(Relay(to, credentials, self._relay_port))
        command = (sys.executable, *PROGRAM, *self._flags())
        self.machine.start(self._site.layout, command, self._environment())
        wait_until(
            lambda: _SERVES in self._log() or not self.machine.is_up,
            _START_SECONDS,
            self.last_words,
        )
        assert self.machine.is_up, self.last_words()

    def stop(self) -> None:
        """Stops it as a supervisor does.

        Raises:
            AssertionError: it did not end well, or left something.
        """
        code = self.machine.ask_to_end(_STOP_SECONDS)
        assert code == 0, f"the server ended with {code}: {self.last_words()}"
        left = list((self.machine.disk / "tmp").iterdir())
        assert left == [], f"files stay: {left}"

    def close(self) -> None:
        """Stops the server and removes its files."""
        self._relay.close()
        self.machine.stop()

    def last_words(self) -> str:
        """Returns the end of the log of the latest process."""
        return self._log()[-_LAST_WORDS:]

    def _flags(self) -> tuple[str, ...]:
        address = self.machine.address
        reached = (f"--job-host={address}", f"--job-port={_PORT}", "--allow-remote")
        state = self._site.store.place(f"{self._prefix}-state")
        kept = (f"--token-file={self._token}", f"--state-dir={state}")
        driver = f"--spark-conf=spark.driver.host={address}"
        return (*reached, *kept, *self._site.flags(self._prefix), driver)

    def _environment(self) -> dict[str, str]:
        temporary = f"-Djava.io.tmpdir={self._site.layout.private}/tmp"
        return {
            **self._site.environment,
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "SPARK_LOCAL_IP": self.machine.address,
            "JDK_JAVA_OPTIONS": f"{QUICK_JAVA} {temporary}",
        }

    def _log(self) -> str:
        return self.machine.log.read_text(errors="replace")
