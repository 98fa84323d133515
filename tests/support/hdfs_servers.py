"""Real HDFS: Hadoop's namenode and data node, each a process that tests can kill and restart from its disk."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from xml.sax.saxutils import escape

from beam_runner_storage.stores.spec import StoreSpec
from free_ports import find_free_ports
from java_servers import QUICK

POM = Path(__file__).parents[1] / "hdfs" / "pom.xml"
_SERVERS = "org.apache.hadoop.hdfs.server"
NAMENODE = f"{_SERVERS}.namenode.NameNode"
DATA_NODE = f"{_SERVERS}.datanode.DataNode"
_ADMIN = "org.apache.hadoop.hdfs.tools.DFSAdmin"
_SECONDS = 120.0


def hadoop_settings(address: str, port: int, pages: int, disk: Path) -> dict[str, str]:
    """Returns the settings of both servers and of clients. Each server writes below its part of the
    disk.

    Args:
        address: address of both servers.
        port: port of the namenode.
        pages: port of the namenode's web pages.
        disk: folder of both servers.
    """
    return {
        "fs.defaultFS": f"hdfs://{address}:{port}",
        "dfs.replication": "1",
        "dfs.namenode.name.dir": f"file://{disk}/names",
        "dfs.namenode.http-address": f"{address}:{pages}",
        "dfs.namenode.safemode.extension": "0",
        # Report blocks immediately, and reconnect to a restarted namenode quickly.
        "dfs.blockreport.initialDelay": "0",
        "dfs.heartbeat.interval": "1",
        "ipc.client.connect.retry.interval": "500",
        "ipc.client.connect.max.retries": "1000",
        "dfs.datanode.data.dir": f"file://{disk}/blocks",
        "dfs.datanode.address": f"{address}:0",
        "dfs.datanode.http.address": f"{address}:0",
        "dfs.datanode.ipc.address": f"{address}:0",
        "fs.viewfs.mounttable.tests.link./jobs": f"hdfs://{address}:{port}/mounted",
        "fs.viewfs.mounttable.tests.linkFallback": f"hdfs://{address}:{port}/",
    }


def write_settings(folder: Path, wanted: Mapping[str, str]) -> None:
    """Writes a folder of settings for ``HADOOP_CONF_DIR``."""
    folder.mkdir(exist_ok=True)
    each = "".join(
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
        for name, value in wanted.items()
    )
    text = f"<configuration>{each}</configuration>"
    for name in ("core-site.xml", "hdfs-site.xml"):
        (folder / name).write_text(text, encoding="utf-8")


def hadoop_command(classes: str, conf: Path, program: str, *arguments: str) -> list[str]:
    """Returns the command of a Hadoop program."""
    return ["java", *QUICK, "-Xmx192m", "-cp", f"{conf}:{classes}", program, *arguments]


class HdfsServers:
    """Namenode and data node on this machine, on the loopback interface.

    Attributes:
        port: port of the namenode.
        pages: port of the namenode's web pages.
        url: URL of this HDFS.
        conf: folder of its settings.
        log: output of both servers.
    """

    def __init__(self, folder: Path, classes: str) -> None:
        self._classes = classes
        self.port, self.pages = find_free_ports(2)
        self.conf = folder / "conf"
        self.log = folder / "hdfs.log"
        self.url = f"hdfs://127.0.0.1:{self.port}"
        write_settings(self.conf, hadoop_settings("127.0.0.1", self.port, self.pages, folder))
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._run(NAMENODE, "-format", "-nonInteractive")
        self.start(NAMENODE)
        self.start(DATA_NODE)
        self.wait()

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables of clients."""
        return {"HADOOP_CONF_DIR": str(self.conf)}

    def start(self, program: str) -> None:
        """Starts the namenode or the data node; clients wait until it serves."""
        with self.log.open("ab") as log:
            self._running[program] = subprocess.Popen(
                hadoop_command(self._classes, self.conf, program),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def wait(self) -> None:
        """Waits until HDFS accepts files."""
        store = StoreSpec(f"{self.url}/up").open_store(_SECONDS)
        store.create_file("up", b"it is")
        store.delete_files(["up"])

    def kill(self, program: str) -> None:
        """Kills the namenode or the data node."""
        process = self._running.pop(program)
        process.kill()
        process.wait()

    @contextmanager
    def suspended(self, program: str) -> Iterator[None]:
        """Suspends the namenode or the data node for the block, so that it doesn't respond but keeps
        its connections.
        """
        process = self._running[program]
        process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            process.send_signal(signal.SIGCONT)

    def run_dfsadmin(self, *arguments: str) -> None:
        """Runs the administration command ``hdfs dfsadmin`` with arguments."""
        self._run(_ADMIN, *arguments)

    def close(self) -> None:
        """Stops the namenode and the data node."""
        for program in tuple(self._running):
            self.kill(program)

    def _run(self, program: str, *arguments: str) -> None:
        command: Sequence[str] = hadoop_command(self._classes, self.conf, program, *arguments)
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
        assert done.returncode == 0, done.stdout + done.stderr
