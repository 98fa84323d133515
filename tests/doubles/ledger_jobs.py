"""Jobs that consist only of a ledger (the committed state of a job), and journal entries for the
ledger.
"""

from __future__ import annotations

from typing import Any

import attrs
from beam_runner_data.rows.refs import FileRows, Segment, StateCommit
from beam_runner_driver.ledger.ledger import JobLedger
from beam_runner_driver.ledger.scheduling import make_root_outputs
from beam_runner_engine.scheduler.commands import Bundle, Command, Input, SplitBundle
from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.events import (
    BundleDone,
    BundleFailed,
    FailureKind,
    Output,
    Progress,
    Residual,
    SplitDone,
    Start,
)
from beam_runner_engine.scheduler.policy import DefaultPolicy
from beam_runner_engine.scheduler.specs import Limits
from beam_runner_model.buffers import BufferKind
from beam_runner_model.bundles import MonitoringInfo
from beam_runner_model.facts import DataStatistics
from beam_runner_model.summary import EMPTY_SUMMARY, ShardSummary
from beam_runner_model.windows import GLOBAL_WINDOW
from beam_runner_planner.plan import JobPlan
from beam_runner_runtime.channel.messages import BundleReply
from beam_runner_urns import metrics as metric_urns
from sample_buffers import buffer
from small_plans import cut, plan_of, stage

COUNTED = (
    MonitoringInfo("beam:metric:x", metric_urns.SUM_INT64_TYPE, (("NAME", "bundles"),), b"\x01"),
)
READERS = plan_of(
    [stage("read", None, {"out": "b"}), stage("one", "b"), stage("two", "b")],
    [buffer("b", BufferKind.STORED)],
)
CHAIN = plan_of(
    [stage("read", None, {"out": "b"}), stage("end", "b", splittable=True)],
    [buffer("b", BufferKind.STORED)],
)
KEYED = plan_of(
    [stage("read", None, {"out": "b"}), stage("count", "b", groups=True)],
    [buffer("b", BufferKind.GROUPED, bulk=False)],
)


class Job:
    """Ledger (committed state of a job), with a journal of all entries that were applied to the
    ledger.
    """

    def __init__(self, plan: JobPlan, **limits: Any) -> None:
        self.ledger = JobLedger(plan, 4, Limits(**{"parallelism": 8, **limits}), DefaultPolicy())
        self.begun = self.ledger.encode_snapshot()
        self.entries: list[Any] = []
        self.apply(Start(0, make_root_outputs(plan)))

    def apply(self, entry: Any) -> tuple[Command, ...]:
        self.entries.append(entry)
        return self.ledger.apply_journal_entry(entry)

    def open(self, stage_id: str) -> tuple[Bundle, ...]:
        return tuple(one for one in self.ledger.open_bundles if one.stage == stage_id)

    def commit(self, bundle: Bundle, *outputs: Data, **more: Any) -> None:
        self.apply(reply(bundle, *outputs, **more))


def reply(
    bundle: Bundle, *outputs: Data, state: tuple[Segment, ...] | None = None, **more: Any
) -> BundleReply:
    if bundle.shard is not None:
        more.setdefault("summary", EMPTY_SUMMARY)
    outs = tuple(Output("b", data) for data in outputs)
    done = BundleDone(bundle.number, bundle.attempt, outs, **more)
    return BundleReply(done, None if state is None else StateCommit(state), COUNTED)


def rows(path: str, *numbers: int, count: int = 10, shard: int | None = None) -> Data:
    facts = DataStatistics(count, 100, 0, shard, frozenset({GLOBAL_WINDOW}))
    return Data(FileRows(path, numbers), facts)


def committed(ledger: JobLedger) -> int:
    """Returns the number of counted bundles."""
    return sum(info.payload[0] for info in ledger.metrics.infos())


def failed(bundle: Bundle, kind: FailureKind = FailureKind.OUTSIDE, cause: str = "why") -> Any:
    return BundleFailed(bundle.number, bundle.attempt, cause, kind)


def split(job: Job, bundle: Bundle, at: int) -> Bundle:
    """Splits a single input; returns the bundle with its primary part."""
    data = bundle.inputs[0].data
    commands = job.apply(Progress(bundle.number, bundle.attempt, 0.01, 60_000))
    assert [one.bundle for one in commands if isinstance(one, SplitBundle)] == [bundle.number]
    kept, given = Input(cut(data, 0, at)), Residual(cut(data, at, data.facts.count))
    job.apply(SplitDone(bundle.number, bundle.attempt, (kept,), (given,)))
    return next(one for one in job.ledger.open_bundles if one.number == bundle.number)


def segments(*names: str) -> tuple[Segment, ...]:
    return tuple(Segment(name, 10) for name in names)


WAITING = ShardSummary(holds=((5000, 1),), next_event_timer=5000)
"""Of a shard that still has a timer."""


def keyed_job() -> tuple[Job, Bundle]:
    """Returns a job whose second source is still open, so that the shard isn't complete."""
    plan = attrs.evolve(
        KEYED,
        stages={**KEYED.stages, "more": stage("more", None, {"out": "b"})},
    )
    job = Job(plan)
    job.commit(*job.open("read"), rows("f", 0, shard=3))
    (bundle,) = job.open("count")
    return job, bundle
