"""What a splittable DoFn has left for later, as input of a further bundle.

The main input of a stage that begins with a splittable DoFn is what that DoFn processes, so a
residual is an element of the same kind and goes the same way.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from beam_runner_worker._protos import beam_fn_api_pb2
from beam_runner_worker.records import ElementChunk


def resumed(
    residuals: Iterable[beam_fn_api_pb2.DelayedBundleApplication],
) -> Iterator[ElementChunk]:
    """Gives each residual when the delay that it asked for is over, the earliest first.

    Delays count from this call on.
    """
    start = time.monotonic()
    waiting = sorted(
        ((r.requested_time_delay.ToTimedelta().total_seconds(), r.application) for r in residuals),
        key=lambda delayed: delayed[0],
    )
    for delay, application in waiting:
        time.sleep(max(0.0, start + delay - time.monotonic()))
        yield ElementChunk(1, application.element, ends=[len(application.element)])
