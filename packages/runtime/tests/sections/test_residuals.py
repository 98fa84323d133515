"""Tests that the same task does the deferred work of a splittable DoFn, if the delay is short."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.utils.timestamp import Duration
from plans import make_plan
from section_runs import Host, Run, order_of

from beam_runner_runtime.channel.attempts import SectionRefusal
from beam_runner_runtime.sections.replies import SectionReply

COUNT = 20
READ: list[int] = []
FOUND: list[Any] = []


class Ranges(RestrictionProvider):
    def initial_restriction(self, element: int) -> OffsetRange:
        return OffsetRange(0, element)

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element: int, restriction: OffsetRange) -> int:
        return restriction.size()


class Read(beam.DoFn):
    """A DoFn that emits the numbers up to an element, three at a time."""

    def __init__(self, delay: float) -> None:
        self._delay = delay

    def process(
        self,
        element: int,
        tracker: Any = beam.DoFn.RestrictionParam(Ranges()),  # noqa: B008
    ) -> Iterator[tuple[int, int]]:
        position = tracker.current_restriction().start
        while tracker.try_claim(position):
            READ.append(position)
            yield position % 4, position
            position += 1
            if position % 3 == 0:
                tracker.defer_remainder(Duration(self._delay))
                return


def keep(group: Any) -> None:
    FOUND.append(sorted(group[1]))


def read(folder: Path, delay: float) -> tuple[SectionReply, Run]:
    READ.clear()
    FOUND.clear()

    def build(p: beam.Pipeline) -> None:
        numbers = p | beam.Create([COUNT, COUNT // 2]) | beam.ParDo(Read(delay))
        numbers | beam.GroupByKey() | beam.Map(keep)

    plan = make_plan(build)
    host = Host(plan, folder)
    try:
        run = Run(host, order_of(plan))
        return run.all(), run
    finally:
        host.close()


def test_section_task_processes_its_deferred_residuals(tmp_path: Path) -> None:
    reply, run = read(tmp_path, 0.01)
    assert reply.end is None and run.host.ends == []
    numbers = sorted([*range(COUNT), *range(COUNT // 2)])
    assert sorted(READ) == numbers
    assert sorted(number for group in FOUND for number in group) == numbers
    assert len(FOUND) == 4


def test_section_residuals_contain_their_restriction_sizes(tmp_path: Path) -> None:
    plan = make_plan(lambda p: p | beam.Create([COUNT, COUNT // 2]) | beam.ParDo(Read(0)))
    within = [name for name, stage in plan.stages.items() if not stage.splittable]
    host = Host(plan, tmp_path)
    try:
        reply = Run(host, order_of(plan, within)).all()
    finally:
        host.close()
    made = [one.data.facts for each in reply.outputs for one in each.outputs]
    assert sum(facts.count for facts in made) == 2
    assert sum(facts.work or 0 for facts in made) == COUNT + COUNT // 2


def test_section_with_long_deferred_residual_is_refused(tmp_path: Path) -> None:
    reply, run = read(tmp_path, 3600)
    assert isinstance(reply.end, SectionRefusal) and reply.end.ran
    assert "has deferred a part of its work for more than 10 s" in reply.end.reason
    assert run.host.ends[0] == reply.end
    assert FOUND == []
