"""A lane: the function that Spark calls in its Python workers, which serves bundles for a while."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from beam_spark_executor.bundles.binding import bind
from beam_spark_executor.channel.client import stand_by
from beam_spark_executor.channel.messages import Endpoint
from beam_spark_executor.channel.stand_by import LaneRef, StandDown
from beam_spark_executor.spark.python_daemon import register_exit_hook


def run_lane(ref: LaneRef, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs a lane as one Spark task; gives its input back, so that Spark knows that it has ended."""
    process = bind(ref.endpoint, ref.job_id, register_exit_hook)
    for batch in batches:
        process.serve(ref.lane)
        yield batch


def run_stand_by(
    endpoint: Endpoint, number: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Waits as one Spark task until a job needs a lane, and runs that."""
    order = stand_by(endpoint, number)
    if isinstance(order, StandDown):
        return batches
    return run_lane(order, batches)
