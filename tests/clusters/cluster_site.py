"""All machines of the tests, and the flags of a server on them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import attrs
from hdfs_machine import HdfsMachine
from machines import Layout, Network
from s3_machine import S3Machine, s3_machine
from shared_folder import SharedFolder
from spark_machines import MEMORY, QUICK_JAVA, SparkMachines

Store = S3Machine | HdfsMachine | SharedFolder
"""The only place that machines share."""
PREFIX = "jobs"
"""Of the data of the server that most tests share."""


@attrs.frozen
class Site:
    """All machines of the tests, and the network, store and Spark cluster that the machines share.

    Attributes:
        network: network that connects the machines with this host.
        layout: file layout of a machine.
        store: only shared storage.
        spark: Spark cluster.
    """

    network: Network
    layout: Layout
    store: Store
    spark: SparkMachines

    def flags(self, prefix: str) -> list[str]:
        """Returns the flags of a server on this cluster, with data below a prefix of the store."""
        stated = [f"--spark-conf={key}={value}" for key, value in self._conf.items()]
        master = f"--spark-master-url={self.spark.url}"
        return [master, f"--data-dir={self.store.place(prefix)}", *stated]

    @property
    def properties(self) -> list[str]:
        """Returns the Spark properties of any program on this cluster."""
        conf = {**self._conf, "spark.master": self.spark.url, "spark.app.name": "tests"}
        return [f"{key}={value}" for key, value in conf.items()]

    @property
    def _conf(self) -> dict[str, str]:
        return {"spark.driver.host": self.network.address, "spark.executor.memory": MEMORY}

    @contextmanager
    def read_only_store(self) -> Iterator[str]:
        """Yields the address of another store with a read-only disk."""
        with s3_machine(self.network, self.layout, "read-only", "--readonly") as store:
            yield store.url

    @property
    def environment(self) -> dict[str, str]:
        """Returns the environment variables of a server on this host."""
        return {
            **self.store.environment,
            "SPARK_LOCAL_IP": self.network.address,
            "JDK_JAVA_OPTIONS": QUICK_JAVA,
        }
