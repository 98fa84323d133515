"""Runs Apache Beam pipelines on Apache Spark: ``--runner=beam_spark_executor.BeamSparkRunner``.

Importing this costs nothing: processes on executors do so for every task. What it offers comes when
it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from beam_spark_executor.client.options import BeamSparkOptions
    from beam_spark_executor.client.runner import BeamSparkRunner

__all__ = ["BeamSparkOptions", "BeamSparkRunner"]


def __getattr__(name: str) -> Any:
    if name == "BeamSparkRunner":
        from beam_spark_executor.client.runner import BeamSparkRunner

        return BeamSparkRunner
    if name == "BeamSparkOptions":
        from beam_spark_executor.client.options import BeamSparkOptions

        return BeamSparkOptions
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
