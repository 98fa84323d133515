"""Tests that the bundles of a task follow the engine's rules: residuals and timers come at their time,
or the section is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
from beam_runner_engine.keyed.cells import CellDelta, CellId
from beam_runner_engine.scheduler.commands import Bundle, Input, SectionStageInput
from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.events import BundleDone, Residual
from beam_runner_model.buffers import BufferKind
from beam_runner_model.facts import DataStatistics
from beam_runner_model.summary import EMPTY_SUMMARY, ShardSummary
from beam_runner_model.times import MAX_TIMESTAMP, MIN_TIMESTAMP
from sample_buffers import buffer
from small_plans import elements, plan_of, stage

from beam_runner_runtime.channel.attempts import SectionRefusal
from beam_runner_runtime.channel.messages import BundleReply, JobWork, RunBundle
from beam_runner_runtime.sections import task_bundles as module
from beam_runner_runtime.sections.plan import SectionPlan
from beam_runner_runtime.sections.task_bundles import TaskBundleRunner

PLAN = plan_of(
    [
        stage("pairs", None, {"out": "pairs"}, splittable=True),
        stage("count", "pairs", groups=True),
    ],
    [buffer("pairs", BufferKind.GROUPED)],
)
Answer = Callable[[RunBundle, Any], BundleDone]


@attrs.define
class Clock:
    """A replacement for ``time`` and for the job's clock. Sleeping advances the clock."""

    ms: int = 1_000_000

    def monotonic(self) -> float:
        return self.ms / 1000

    def sleep(self, seconds: float) -> None:
        self.ms += max(1, round(seconds * 1000))

    def now(self) -> int:
        return self.ms


@attrs.define
class Host:
    """Worker process whose bundles return results that a test sets.

    Attributes:
        ran: bundles with their start times.
        told: reasons that were reported for the end of the section.
    """

    clock: Clock
    scratch: Path
    answer: Answer
    work: JobWork = attrs.field(factory=lambda: JobWork(PLAN, 1, "folder"))
    data: Any = None
    ran: list[tuple[int, Bundle]] = attrs.field(factory=list)
    ends: list[Any] = attrs.field(factory=list)

    def run_bundle(self, order: RunBundle, stores: Any, data: Any) -> BundleReply:
        self.ran.append((self.clock.ms, order.bundle))
        return BundleReply(self.answer(order, stores), None, ())

    def report_end(self, end: Any) -> None:
        self.ends.append(end)

    def log_warning(self, text: str) -> None:
        raise AssertionError(text)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def bundles_of(host: Host, place: int, data: Sequence[Data]) -> TaskBundleRunner:
    """Returns the bundles of a task that reads `data` for the stage at `place`."""
    parts = [SectionStageInput(name, (), (), MIN_TIMESTAMP) for name in PLAN.stages]
    times = (MIN_TIMESTAMP, MAX_TIMESTAMP, MIN_TIMESTAMP, host.clock.ms)
    section = Bundle(7, 3, "pairs", None, (), (), *times, parts=tuple(parts))
    plan = SectionPlan.from_parts(PLAN, parts, 1)
    found = plan.levels[place][0]
    rows: Any = SimpleNamespace(source=0, outbox=SimpleNamespace(overflows=False))
    return TaskBundleRunner(
        host, section, "task", [(found, [Input(d) for d in data])], rows, lambda: True
    )


def done(order: RunBundle, **fields: Any) -> BundleDone:
    return BundleDone(order.bundle.number, order.bundle.attempt, **fields)


def test_section_task_resumes_each_residual_at_its_time(clock: Clock, tmp_path: Path) -> None:
    begun = clock.ms
    delays = {b"early": 2_000, b"late": 9_000}

    def answer(order: RunBundle, stores: Any) -> BundleDone:
        if clock.ms > begun:
            return done(order)
        put_off = [Residual(elements(str(delay), name), delay) for name, delay in delays.items()]
        return done(order, residuals=tuple(put_off))

    host = Host(clock, tmp_path, answer)
    reply = bundles_of(host, 0, [elements("all", b"x")]).run_bundles()
    assert reply.end is None
    assert [at - begun for at, _ in host.ran] == [0, 2_000, 9_000]
    assert {(bundle.number, bundle.attempt) for _, bundle in host.ran} == {(7, 3)}


def test_section_task_fires_processing_time_timer_with_state_of_its_shard(
    clock: Clock, tmp_path: Path
) -> None:
    begun = clock.ms
    read: list[Any] = []

    def answer(order: RunBundle, stores: Any) -> BundleDone:
        store = stores.open(order.bundle.stage, order.bundle.shard, order.state)
        read.append(store.read_values(CELL, b"k"))
        if clock.ms > begun:
            return done(order, summary=EMPTY_SUMMARY)
        store.write_commit({CELL: CellDelta(added={b"k": ["kept"]})}, order.name)
        return done(order, summary=ShardSummary(next_processing_timer=begun + 500))

    host = Host(clock, tmp_path, answer)
    facts = DataStatistics(1, 1, MIN_TIMESTAMP, 0, None)
    reply = bundles_of(host, 1, [Data("rows", facts)]).run_bundles()
    assert reply.end is None
    assert read == [None, ["kept"]]
    (_, first), (at, second) = host.ran
    assert first.inputs and not second.inputs
    assert at == second.processing_time == begun + 500
    assert second.end_watermark == MAX_TIMESTAMP
    assert list(tmp_path.iterdir()) == []


def test_section_task_refuses_section_immediately_if_timer_is_far_in_future(
    clock: Clock, tmp_path: Path
) -> None:
    begun = clock.ms

    def answer(order: RunBundle, stores: Any) -> BundleDone:
        return done(order, summary=ShardSummary(next_processing_timer=begun + 60_000))

    host = Host(clock, tmp_path, answer)
    facts = DataStatistics(1, 1, MIN_TIMESTAMP, 0, None)
    reply = bundles_of(host, 1, [Data("rows", facts)]).run_bundles()
    assert isinstance(reply.end, SectionRefusal)
    assert reply.end.reason == "the count step has deferred a part of its work for more than 10 s"
    assert host.ends == [reply.end]
    assert clock.ms == begun


def test_section_task_processes_complete_shards_in_row_order(clock: Clock, tmp_path: Path) -> None:
    host = Host(clock, tmp_path, lambda order, stores: done(order, summary=EMPTY_SUMMARY))
    rows = [Data(name, DataStatistics(1, 1, MIN_TIMESTAMP, shard, None)) for name, shard in SHARDS]
    assert bundles_of(host, 1, rows).run_bundles().end is None
    found = [(b.shard, [one.data.ref for one in b.inputs]) for _, b in host.ran]
    assert found == [(4, ["a", "c"]), (2, ["b"])]


CELL = CellId("state", b"key", b"")
SHARDS = (("a", 4), ("b", 2), ("c", 4))
