"""Spark's standalone cluster on separate machines: a master, and workers that tests add and remove."""

from __future__ import annotations

import json
import os
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from machines import Layout, Machine, Network
from pyspark.find_spark_home import _find_spark_home
from waiting import wait_until

CORES = 1
"""Cores of each worker; all workers share the cores of this host."""
MEMORY = "768m"
"""Memory of each executor; a worker has memory for one executor."""
QUICK_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""Java options that halve the CPU time of the start, and reduce the later speed."""
_PORT = 7077
_PAGES = 8080
_SECONDS = 240.0
_REGISTERED = "Successfully registered with driver"
_LOST_SECONDS = 10
"""Time without a heartbeat after which the master considers a worker lost, seconds."""


class SparkMachines:
    """Master and its workers.

    Attributes:
        url: URL of the master.
        workers: started workers, also stopped ones.
        scratch: folder of each worker for files of executors.
    """

    def __init__(
        self,
        network: Network,
        layout: Layout,
        environment: Mapping[str, str],
        workers: int,
        kind: str,
    ) -> None:
        self._network = network
        self._kind = kind
        self._layout = layout
        self._home = layout.private / "spark"
        self.scratch = layout.private / "local"
        self._environment = {
            **environment,
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "SPARK_HOME": str(self._home),
            "SPARK_DAEMON_MEMORY": "192m",
            # Executors need this folder, too, because they can't write /tmp on these machines.
            "JDK_JAVA_OPTIONS": f"{QUICK_JAVA} -Djava.io.tmpdir={layout.private}/tmp",
            "SPARK_LOCAL_DIRS": str(self.scratch),
            "SPARK_WORKER_DIR": str(layout.private / "work"),
            "SPARK_MASTER_OPTS": f"-Dspark.worker.timeout={_LOST_SECONDS}",
            "SPARK_WORKER_OPTS": f"-Dspark.worker.timeout={_LOST_SECONDS}",
        }
        self._master = network.machine(f"{kind}master")
        self.url = f"spark://{self._master.address}:{_PORT}"
        self.workers: list[Machine] = []
        host = ("--host", self._master.address, "--port", str(_PORT))
        self._start(self._master, "master.Master", *host, "--webui-port", str(_PAGES))
        wait_until(self._answers, _SECONDS, lambda: f"the master serves: {self._master.log}")
        self.add(workers)

    def add(self, count: int, cores: int = CORES) -> list[Machine]:
        """Adds workers, and waits until they are registered with the master."""
        first = len(self.workers) + 1
        names = [f"{self._kind}worker-{number}" for number in range(first, first + count)]
        more = [self._network.machine(name) for name in names]
        self.workers += more
        for machine in more:
            self.boot(machine, cores)
        self.wait_for(more)
        return more

    def boot(self, machine: Machine, cores: int = CORES) -> None:
        """Starts a worker, also after a kill, and doesn't wait for it."""
        host = ("--host", machine.address, "--webui-port", "0")
        size = ("--cores", str(cores), "--memory", "1g")
        self._start(machine, "worker.Worker", *host, *size, self.url)

    def wait_for(self, machines: list[Machine]) -> None:
        """Waits until the master knows workers."""
        wanted = {machine.address for machine in machines}
        wait_until(lambda: wanted <= self.alive(), _SECONDS, lambda: f"{wanted} in {self.alive()}")

    def alive(self) -> set[str]:
        """Returns the addresses of the workers that the master lists as alive."""
        workers: list[dict[str, Any]] = self._told()["workers"]
        return {worker["host"] for worker in workers if worker["state"] == "ALIVE"}

    def at_work(self) -> set[str]:
        """Returns the addresses of the workers on which the master lists an executor."""
        workers: list[dict[str, Any]] = self._told()["workers"]
        return {worker["host"] for worker in workers if worker["coresused"]}

    def has_executor(self, machine: Machine) -> bool:
        """Returns True if an executor on the machine has registered with the server since the last
        start of the machine.
        """
        logs = machine.disk.glob("work/app-*/*/stderr")
        return any(_REGISTERED in log.read_text(errors="replace") for log in logs)

    def last_words(self) -> str:
        """Returns the ends of the logs of all executors."""
        found = []
        for machine in self.workers:
            for log in sorted(machine.disk.glob("work/app-*/*/stderr")):
                lines = log.read_text(errors="replace").splitlines()
                found += [f"{machine.name} {log.parent.name}: {line}" for line in lines[-40:]]
        return "\n".join(found)

    def stop(self) -> None:
        """Stops all machines."""
        for machine in (*self.workers, self._master):
            machine.stop()

    def _start(self, machine: Machine, program: str, *arguments: str) -> None:
        command = (str(self._home / "bin" / "spark-class"), f"org.apache.spark.deploy.{program}")
        environment = {**self._environment, "SPARK_LOCAL_IP": machine.address}
        machine.start(self._layout, (*command, *arguments), environment)

    def _answers(self) -> bool:
        try:
            return bool(self._told())
        except (OSError, ValueError):  # the page exists before its contents
            return False

    def _told(self) -> dict[str, Any]:
        address = f"http://{self._master.address}:{_PAGES}/json/"
        with urllib.request.urlopen(address, timeout=5) as answer:
            told: dict[str, Any] = json.load(answer)
            return told


def spark_home() -> Path:
    """Returns the folder of the installed Spark."""
    return Path(_find_spark_home())


@contextmanager
def spark_machines(
    network: Network,
    layout: Layout,
    environment: Mapping[str, str],
    workers: int,
    kind: str = "",
) -> Iterator[SparkMachines]:
    """Runs a cluster for the block; the names of its machines start with its kind."""
    began = time.monotonic()
    cluster = SparkMachines(network, layout, environment, workers, kind)
    try:
        print(f"{workers} workers after {time.monotonic() - began:.1f} s", flush=True)
        yield cluster
    finally:
        cluster.stop()
