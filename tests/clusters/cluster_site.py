"""All machines of the tests together, and how a server is told to work there."""

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
    """All machines of the tests, and what they have.

    Attributes:
        network: that connects them with this one.
        layout: of a machine.
        store: the only place that they share.
        spark: the cluster.
    """

    network: Network
    layout: Layout
    store: Store
    spark: SparkMachines

    def flags(self, prefix: str) -> list[str]:
        """What a server needs to be told to work here, with data below a prefix of the store."""
        stated = [f"--spark-conf={key}={value}" for key, value in self._conf.items()]
        master = f"--spark-master-url={self.spark.url}"
        return [master, f"--data-dir={self.store.place(prefix)}", *stated]

    @property
    def properties(self) -> list[str]:
        """The same for any program that uses Spark: its properties."""
        conf = {**self._conf, "spark.master": self.spark.url, "spark.app.name": "tests"}
        return [f"{key}={value}" for key, value in conf.items()]

    @property
    def _conf(self) -> dict[str, str]:
        return {"spark.driver.host": self.network.address, "spark.executor.memory": MEMORY}

    @contextmanager
    def read_only_store(self) -> Iterator[str]:
        """The address of another server, with another disk, that takes nothing."""
        with s3_machine(self.network, self.layout, "read-only", "--readonly") as store:
            yield store.url

    @property
    def environment(self) -> dict[str, str]:
        """That of a server: its own machine is this one."""
        return {
            **self.store.environment,
            "SPARK_LOCAL_IP": self.network.address,
            "JDK_JAVA_OPTIONS": QUICK_JAVA,
        }
