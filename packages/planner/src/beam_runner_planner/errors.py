"""Errors of translation: the pipeline is malformed, or uses an unsupported feature."""

from __future__ import annotations


class UnsupportedPipeline(Exception):
    """A pipeline that uses features that this runner does not support.

    Attributes:
        reasons: one sentence for each feature, with the feature and the transform.
    """

    def __init__(self, reasons: list[str]) -> None:
        super().__init__(
            "This runner doesn't support these features of the pipeline: " + "; ".join(reasons)
        )
        self.reasons = tuple(reasons)


class InvalidPipeline(Exception):
    """A malformed pipeline, which no runner can execute. The text names the problem and the affected part."""
