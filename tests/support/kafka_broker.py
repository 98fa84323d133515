"""Real Kafka: one broker that is also the controller, a process that tests can kill and restart from its disk."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

from free_ports import find_free_ports
from java_servers import QUICK
from waiting import wait_until

POM = Path(__file__).parents[1] / "kafka" / "pom.xml"
CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
"""Spark's Kafka connector. The connector of Spark 4.3 isn't published in our repositories; this
version works with Spark 4.3.
"""
_SECONDS = 120.0
_CLUSTER = "AAAAAAAAAAAAAAAAAAAAAA"
_OF_ONE_BROKER = (
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
    "share.coordinator.state.topic.replication.factor",
    "share.coordinator.state.topic.min.isr",
)


class KafkaBroker:
    """Broker on this machine, on the loopback interface, without automatic creation of topics.

    Attributes:
        address: address for clients.
        log: output of the broker.
    """

    def __init__(self, folder: Path, classes: str) -> None:
        self._classes = classes
        port, controller = find_free_ports(2)
        self.address = f"127.0.0.1:{port}"
        self.log = folder / "kafka.log"
        self._settings = folder / "server.properties"
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{controller}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(folder / "logs"),
            "auto.create.topics.enable": "false",
            **dict.fromkeys(_OF_ONE_BROKER, "1"),
        }
        self._settings.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        form = ("kafka.tools.StorageTool", "format", "--standalone", "-t", _CLUSTER, "-c")
        subprocess.run(
            self._java_command(*form, str(self._settings)),
            check=True,
            timeout=_SECONDS,
            capture_output=True,
        )
        self.start()

    def start(self) -> None:
        """Starts the broker, and waits until it accepts connections."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._java_command("kafka.Kafka", str(self._settings)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        wait_until(self._accepts_connections, _SECONDS, lambda: self.log.read_text()[-2000:])

    def kill(self) -> None:
        """Kills the broker."""
        self._process.kill()
        self._process.wait()

    def _accepts_connections(self) -> bool:
        host, _, port = self.address.partition(":")
        with socket.socket() as one:
            return one.connect_ex((host, int(port))) == 0

    def _java_command(self, program: str, *arguments: str) -> list[str]:
        return ["java", *QUICK, "-Xmx256m", "-cp", self._classes, program, *arguments]
