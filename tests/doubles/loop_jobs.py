"""Job whose bundles all run in the scheduler loop inside a worker process, and a test rig whose
only worker runs this loop.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest
from beam_runner_model.buffers import BufferKind
from beam_runner_runtime.bundles import loop as loop_module
from beam_runner_runtime.channel.messages import RunLoop
from beam_runner_runtime.tuning import TUNING
from rig import Rig
from sample_buffers import buffer
from small_plans import plan_of, stage
from worker_doubles import FakeWorker

# Use two sources, so that the shards hold state between the data of both sources.
PLAN = plan_of(
    [
        stage("read", None, {"out": "pairs"}),
        stage("more", None, {"out": "pairs"}),
        stage("count", "pairs", {"out": "counts"}, groups=True),
        stage("end", "counts"),
    ],
    [buffer("pairs", BufferKind.GROUPED, bulk=False), buffer("counts", BufferKind.STORED)],
)
TRANSFORMS: Any = {
    "read": lambda _: {"out": [b"a1", b"b1"]},
    "more": lambda _: {"out": [b"a2", b"c1"]},
    "count": lambda groups: {"out": groups},
}
EXPECTED = {"a=2": 1, "b=1": 1, "c=1": 1}
LOOP_BYTES = 1 << 20
UNHURRIED = attrs.evolve(
    TUNING, loop_bundle_ms=1_000_000, loop_source_ms=1_000_000, loop_parallel_ms=1_000_000
)
"""On a busy machine a bundle may take longer than any smaller limit."""


def tune(monkeypatch: pytest.MonkeyPatch, **numbers: int) -> None:
    """Changes the limits of scheduler loops."""
    monkeypatch.setattr(loop_module, "TUNING", attrs.evolve(UNHURRIED, **numbers))


def rig_in_loop(place: Path) -> tuple[Rig, FakeWorker, RunLoop]:
    """Returns a test rig whose only worker has the order to run the scheduler loop."""
    rig = Rig(place, PLAN, TRANSFORMS, loop_bytes=LOOP_BYTES)
    rig.begin()
    rig.open_lanes()
    (worker,) = rig.workers
    order = worker.pending.popleft()
    assert isinstance(order, RunLoop)
    return rig, worker, order
