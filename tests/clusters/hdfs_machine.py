"""Machine with a real HDFS, a namenode and a data node, whose data survives a kill."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from beam_runner_storage.stores.ports import StoreError
from beam_runner_storage.stores.spec import StoreSpec
from hdfs_servers import DATA_NODE, NAMENODE, POM, hadoop_command, hadoop_settings, write_settings
from java_servers import fetch_class_path
from machines import Layout, Network
from waiting import wait_until

_PORT, _PAGES = 8020, 9870
_SECONDS = 120.0
_PATIENCE = 5.0


class HdfsMachine:
    """Namenode and data node on one machine.

    Attributes:
        environment: environment variables of clients.
    """

    def __init__(self, network: Network, layout: Layout, folder: Path) -> None:
        self._layout = layout
        self.machine = network.machine("store")
        self._url = f"hdfs://{self.machine.address}:{_PORT}"
        conf = folder / "conf"
        disk = layout.private / "hdfs"
        write_settings(conf, hadoop_settings(self.machine.address, _PORT, _PAGES, disk))
        classes = fetch_class_path(POM, folder)
        namenode, data_node = (
            " ".join(hadoop_command(classes, conf, it)) for it in (NAMENODE, DATA_NODE)
        )
        script = f"[ -e {disk} ] || {namenode} -format -nonInteractive; {namenode} & {data_node}"
        self._command = ("sh", "-c", script)
        self.environment = {"HADOOP_CONF_DIR": str(conf)}
        self.start()

    def start(self) -> None:
        """Starts the machine, also after a kill, and waits until HDFS accepts files."""
        # On these machines /tmp can't be written.
        environment = {"JDK_JAVA_OPTIONS": f"-Djava.io.tmpdir={self._layout.private}/tmp"}
        self.machine.start(self._layout, self._command, environment)
        wait_until(self._answers, _SECONDS, lambda: f"the store answers: {self.machine.log}")

    def place(self, prefix: str) -> str:
        """Returns the URL of a folder in HDFS."""
        return f"{self._url}/{prefix}"

    def names(self, prefix: str) -> list[str]:
        """Returns all files below a folder."""
        return list(StoreSpec(self.place(prefix)).open_store(_PATIENCE).list_names())

    def _answers(self) -> bool:
        try:
            store = StoreSpec(self.place("up")).open_store(_PATIENCE)
            store.create_file("up", b"")
            store.delete_files(["up"])
        except StoreError:
            return False
        return True


@contextmanager
def hdfs_machine(network: Network, layout: Layout, folder: Path) -> Iterator[HdfsMachine]:
    """Runs a store for the block; its settings are in a folder that all machines see."""
    made = HdfsMachine(network, layout, folder)
    try:
        yield made
    finally:
        made.machine.stop()
