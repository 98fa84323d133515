"""The errors that translation knows: a pipeline is malformed, or asks for what is not supported."""

from __future__ import annotations


class UnsupportedPipeline(Exception):
    """The pipeline uses features that this runner does not support yet.

    Attributes:
        reasons: one sentence each, naming the feature and the transform.
    """

    def __init__(self, reasons: list[str]) -> None:
        super().__init__(
            "This pipeline can't run here, since it uses what the runner does not support yet: "
            + "; ".join(reasons)
        )
        self.reasons = tuple(reasons)


class InvalidPipeline(Exception):
    """The pipeline is malformed: it means nothing, to no runner. The text says what is wrong, and where."""
