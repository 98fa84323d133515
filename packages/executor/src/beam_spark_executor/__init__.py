"""The Apache Beam runner for Apache Spark: ``--runner=beam_spark_executor.BeamSparkRunner``.

Importing this package loads nothing else, because Spark's worker processes import it for every
task. Names are imported on first access.
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
