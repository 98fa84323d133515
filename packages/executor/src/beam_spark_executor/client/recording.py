"""Detection of pipelines with which Interactive Beam records streaming sources. Only the DirectRunner
can run them.

Interactive Beam replays the recording to the pipeline as a TestStream, which every runner can run.
"""

from __future__ import annotations

from typing import Any

import apache_beam as beam
from apache_beam.pipeline import PipelineVisitor
from apache_beam.testing.test_stream import PairWithTiming


def is_stream_recording(pipeline: beam.Pipeline) -> bool:
    """Returns whether Interactive Beam has made a pipeline to record the sources of another pipeline."""
    finds = _TimingTransformFinder()
    pipeline.visit(finds)
    return finds.found


class _TimingTransformFinder(PipelineVisitor):
    """A visitor that finds a transform without a portable form, which reads a runner's clock and watermark."""

    found = False

    def visit_transform(self, transform_node: Any) -> None:
        self.found = self.found or isinstance(transform_node.transform, PairWithTiming)
