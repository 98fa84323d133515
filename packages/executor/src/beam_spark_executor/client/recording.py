"""Detection of the pipelines by which Interactive Beam records streaming sources. Only the
DirectRunner can run these pipelines.

After the recording, Interactive Beam runs the user's pipeline with the recorded data as a
TestStream, which every runner supports.
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
    """Pipeline visitor that finds a transform of Interactive Beam that has no portable form,
    because it reads the runner's clock and watermark.
    """

    found = False

    def visit_transform(self, transform_node: Any) -> None:
        self.found = self.found or isinstance(transform_node.transform, PairWithTiming)
