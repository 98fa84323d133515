"""Transforms that no SDK runs: the runner carries them out, and only the one of this package knows how to.

Other runners refuse them. Those that have this process run what they don't know say so in a sentence.
"""

from __future__ import annotations

from typing import Any, NoReturn

from apache_beam import pvalue
from apache_beam.runners.worker.bundle_processor import BeamTransformFactory
from apache_beam.transforms.ptransform import PTransform
from beam_runner_planner.table_specs import StreamSource, TableSource, TableTarget
from beam_runner_urns import spark as urns


class ForeignRunner(RuntimeError):
    """A runner was given one of these transforms that does not carry it out."""


class CarriedOutBySpark(PTransform):
    """A transform without parts, which only the runner of this package knows."""

    def __init__(self, urn: str, payload: bytes) -> None:
        super().__init__()
        self._urn = urn
        self._payload = payload

    def expand(self, input_or_inputs: pvalue.PCollection) -> pvalue.PCollection:
        """The runner does it: there are no parts."""
        bounded = self._urn != urns.READ_STREAM
        return pvalue.PCollection(input_or_inputs.pipeline, element_type=bytes, is_bounded=bounded)

    def to_runner_api_parameter(self, unused_context: Any) -> tuple[str, bytes]:
        """What the runner is told."""
        return self._urn, self._payload


def read(source: TableSource) -> PTransform:
    """Of an impulse the batches of a table, each as a stream of Arrow's format."""
    return CarriedOutBySpark(urns.READ, source.to_payload())


def read_stream(source: StreamSource) -> PTransform:
    """Of an impulse the batches of a stream as they come, each as a stream of Arrow's format."""
    return CarriedOutBySpark(urns.READ_STREAM, source.to_payload())


def stage(target: TableTarget) -> PTransform:
    """Of all batches what was written with them, where nobody looks yet."""
    return CarriedOutBySpark(urns.STAGE, target.to_payload())


def publish(target: TableTarget) -> PTransform:
    """Of what was written the name of the table, which has it now."""
    return CarriedOutBySpark(urns.PUBLISH, target.to_payload())


def _register(urn: str) -> None:
    # Beam's own SDK knows a transform by these two tables; runners in Python look into the first one.
    PTransform.register_urn(urn, bytes, lambda _, payload, __: CarriedOutBySpark(urn, payload))

    @BeamTransformFactory.register_urn(urn, bytes)
    def refuse(factory: Any, name: str, *_: Any) -> NoReturn:
        raise ForeignRunner(
            f"{name!r} is carried out by Spark's own readers and writers, which this runner does not"
            " have: run the pipeline with beam_spark_executor.BeamSparkRunner"
        )


for _urn in sorted(urns.ALL):
    _register(_urn)
