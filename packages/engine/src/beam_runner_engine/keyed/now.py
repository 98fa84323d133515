"""Current watermarks and processing time for keyed work, as the scheduler provides them."""

from __future__ import annotations

import attrs
from beam_runner_model.times import MIN_TIMESTAMP, Timestamp


@attrs.frozen
class CurrentTimes:
    """Watermarks and processing time at which elements or timers are processed.

    Attributes:
        watermark: the input watermark of the stage (event time, ms).
        processing_time: the server's clock (ms since the Unix epoch).
        output_watermark: the output watermark of the stage (event time, ms). The default is
            `watermark`, which is correct without holds.
        draining: whether the job is draining, so that timers that set themselves again must stop.
    """

    watermark: Timestamp = MIN_TIMESTAMP
    processing_time: Timestamp = MIN_TIMESTAMP
    output_watermark: Timestamp = attrs.field()

    @output_watermark.default
    def _compute_default_output_watermark(self) -> Timestamp:
        return self.watermark

    draining: bool = False
