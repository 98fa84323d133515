"""Check of a translated pipeline for a mistake that Beam's optimizer reports as a KeyError."""

from __future__ import annotations

from typing import Any


def check_producers(pipeline: Any) -> None:
    """Checks that the pipeline itself produces each PCollection that a transform reads.

    Args:
        pipeline: the proto of the pipeline.

    Raises:
        ValueError: a transform reads a PCollection of another pipeline; the text names the
            transform.
    """
    transforms = pipeline.components.transforms.values()
    produced = {name for transform in transforms for name in transform.outputs.values()}
    for transform in transforms:
        if not transform.subtransforms and not produced.issuperset(transform.inputs.values()):
            raise ValueError(
                f"the transform {transform.unique_name!r} reads a PCollection of another pipeline:"
                " build all PCollections of a pipeline from the same beam.Pipeline object"
            )
