"""Job of two stages whose last stage gets four values, run by a rig."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from beam_runner_driver.reports.reporting import format_job_failure
from beam_runner_engine.scheduler.commands import FailJob, FinishJob, Outcome
from beam_runner_model.buffers import BufferKind
from beam_runner_runtime.channel.messages import RunBundle
from rig import Rig
from sample_buffers import buffer
from small_plans import plan_of, stage
from worker_doubles import FakeWorker, seen_in

VALUES = [b"a", b"b", b"c", b"d"]
EXPECTED = dict.fromkeys("abcd", 1)
PLAN = plan_of(
    [stage("read", None, {"out": "values"}), stage("see", "values", splittable=True)],
    [buffer("values", BufferKind.DEALT)],
)
TRANSFORMS: Any = {"read": lambda _: {"out": VALUES}}
LOOP_BYTES = 1 << 20
DONE = FinishJob(Outcome.DONE)


def rig_of(place: Path, **more: Any) -> Rig:
    rig = Rig(place, PLAN, TRANSFORMS, **more)
    rig.begin()
    return rig


def seen(rig: Rig) -> dict[str, int]:
    return seen_in(rig.ledger.metrics.infos())


def text(rig: Rig) -> str:
    assert isinstance(rig.ledger.end, FailJob)
    return format_job_failure(rig.ledger.end, rig.ledger.last_failure, PLAN)


def running(place: Path, **more: Any) -> tuple[Rig, FakeWorker, RunBundle]:
    """Returns a rig whose only lane runs the bundle with all values, while no other bundle is open."""
    rig = Rig(
        place,
        plan_of(
            [stage("read", None, {"out": "values"}), stage("see", "values", splittable=True)],
            [buffer("values", BufferKind.STORED)],
        ),
        TRANSFORMS,
        **more,
    )
    rig.begin()
    rig.run(until=lambda: any(o.bundle.stage == "see" for o in orders(rig)))
    (worker,) = rig.workers
    return rig, worker, worker.pending.popleft()


def orders(rig: Rig) -> list[RunBundle]:
    return [o for w in rig.workers for o in w.pending if isinstance(o, RunBundle)]
