"""Spark as the system that runs a server's worker processes, with the steps that start Spark early."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
from beam_runner_runtime.processes import reaper

from beam_spark_executor.spark.settings import SparkSettings

if TYPE_CHECKING:
    from beam_runner_runtime.processes.forked_process import ForkedProcess

    from beam_spark_executor.spark.placement import SparkPlacement
    from beam_spark_executor.spark.session import RunningSpark


@attrs.define
class SparkPlatform:
    """Starts Spark with the given settings (`beam_runner_server.ports.Platform`).

    No method before `begin_startup` or `create_placement` imports PySpark.
    """

    settings: SparkSettings = attrs.field(factory=SparkSettings)
    _spark: RunningSpark | None = attrs.field(default=None, init=False, eq=False)
    _fork_server: ForkedProcess | None = attrs.field(default=None, init=False, eq=False)

    def begin_startup(self) -> None:
        """Starts Spark's Java process, unless the server uses an existing one."""
        from beam_spark_executor.spark.session import RunningSpark

        self._spark = RunningSpark(self.settings)
        self._spark.begin_startup()

    def create_fork_server(self) -> None:
        """Forks the fork server, from which Spark's Python daemons are forked later, if `begin_startup` has started Java."""
        if self._spark is None or not self._spark.pipes or not reaper.is_reaper_supported():
            return
        from beam_spark_executor.spark import python_daemon

        self._fork_server = python_daemon.start_fork_server(self._spark.pipes)

    def create_placement(self) -> SparkPlacement:
        """Creates the placement, which starts and stops worker processes on Spark."""
        from beam_spark_executor.spark.placement import SparkPlacement
        from beam_spark_executor.spark.session import RunningSpark

        return SparkPlacement(self._spark or RunningSpark(self.settings), self._fork_server)

    def kill(self) -> None:
        """Kills the Java process that `begin_startup` started."""
        if self._spark is not None:
            self._spark.kill()
