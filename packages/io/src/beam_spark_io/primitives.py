"""Primitive transforms for Spark tables, which this runner executes without an SDK.

Other runners refuse them. A runner that executes unknown transforms in this process gets a clear
error.
"""

from __future__ import annotations

from typing import Any, NoReturn

from apache_beam import pvalue
from apache_beam.runners.worker.bundle_processor import BeamTransformFactory
from apache_beam.transforms.ptransform import PTransform
from beam_runner_planner.table_specs import StreamSource, TableSource, TableTarget
from beam_runner_urns import spark as urns


class UnsupportedRunner(RuntimeError):
    """Raised if another runner tries to execute one of these transforms."""


class SparkPrimitive(PTransform):
    """Primitive transform (without subtransforms) that only this runner supports."""

    def __init__(self, urn: str, payload: bytes) -> None:
        super().__init__()
        self._urn = urn
        self._payload = payload

    def expand(self, input_or_inputs: pvalue.PCollection) -> pvalue.PCollection:
        """Returns the output PCollections, without subtransforms, because the runner executes the transform."""
        bounded = self._urn != urns.READ_STREAM
        return pvalue.PCollection(input_or_inputs.pipeline, element_type=bytes, is_bounded=bounded)

    def to_runner_api_parameter(self, unused_context: Any) -> tuple[str, bytes]:
        """Returns the URN and the payload for the runner."""
        return self._urn, self._payload


def read_table(source: TableSource) -> PTransform:
    """Returns a transform that reads a table. Its input is an impulse, and its output is batches of
    rows, each as an Arrow stream.
    """
    return SparkPrimitive(urns.READ, source.to_payload())


def read_stream(source: StreamSource) -> PTransform:
    """Returns a transform that reads a stream without end. Its input is an impulse, and its output is
    batches of rows, each as an Arrow stream.
    """
    return SparkPrimitive(urns.READ_STREAM, source.to_payload())


def stage_batches(target: TableTarget) -> PTransform:
    """Returns a transform that writes batches to a staging folder or staging table, and emits a
    description of the written data.
    """
    return SparkPrimitive(urns.STAGE, target.to_payload())


def publish_staged_files(target: TableTarget) -> PTransform:
    """Returns a transform that moves staged data into the target table, and emits the name of the
    table.
    """
    return SparkPrimitive(urns.PUBLISH, target.to_payload())


def _register_urn(urn: str) -> None:
    # Register the transforms in both of the SDK's tables that map URNs to transforms. Python
    # runners use the first table.
    PTransform.register_urn(urn, bytes, lambda _, payload, __: SparkPrimitive(urn, payload))

    @BeamTransformFactory.register_urn(urn, bytes)
    def reject_foreign_runner(factory: Any, name: str, *_: Any) -> NoReturn:
        raise UnsupportedRunner(
            f"the transform {name!r} needs Spark's readers and writers, which this"
            " runner doesn't have: run the pipeline with"
            " beam_spark_executor.BeamSparkRunner"
        )


for _urn in sorted(urns.ALL):
    _register_urn(_urn)
