"""Now: the times a bundle of keyed work happens at, as the scheduler tells them."""

from __future__ import annotations

import attrs
from beam_runner_model.times import MIN_TIMESTAMP, Timestamp


@attrs.frozen
class Now:
    """The times (ms) that hold while something is processed.

    `watermark` is the stage's input watermark, `output_watermark` its output watermark, which is
    the input's unless something holds it back; `processing_time` is the server's clock. `draining`
    says that all sources were told to end, so that what would repeat itself for ever is to end, too.
    """

    watermark: Timestamp = MIN_TIMESTAMP
    processing_time: Timestamp = MIN_TIMESTAMP
    output_watermark: Timestamp = attrs.field()

    @output_watermark.default
    def _unheld(self) -> Timestamp:
        return self.watermark

    draining: bool = False
