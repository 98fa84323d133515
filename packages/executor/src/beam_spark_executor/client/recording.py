"""What Beam's interactive runner does with streams: it records their sources, which its DirectRunner alone can.

What was recorded is replayed to the pipeline as a TestStream, which every runner may run.
"""

from __future__ import annotations

from typing import Any

import apache_beam as beam
from apache_beam.pipeline import PipelineVisitor
from apache_beam.testing.test_stream import PairWithTiming


def records_a_stream(pipeline: beam.Pipeline) -> bool:
    """Whether a pipeline is one that Beam has made to record the sources of another."""
    finds = _FindsTiming()
    pipeline.visit(finds)
    return finds.found


class _FindsTiming(PipelineVisitor):
    """Looks for a transform that has no portable form: it asks a runner for its clock and its watermark."""

    found = False

    def visit_transform(self, transform_node: Any) -> None:
        self.found = self.found or isinstance(transform_node.transform, PairWithTiming)
