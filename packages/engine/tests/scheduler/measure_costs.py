"""Measurement of the scheduler's cost per event: `python
packages/engine/tests/scheduler/measure_costs.py`.

The script prints the costs for 10 to 1,000 stages and 10 to 10,000 key shards. The script fails if an event costs more than twice the cost in the smallest job. Only ratios
are compared, because absolute costs depend on the machine. The jobs run alternately, so that a slow
period of the machine affects all of them.
"""

from __future__ import annotations

import gc
import pickle
import sys
import time
from typing import TypeVar

from beam_runner_model.facts import DataStatistics
from beam_runner_model.summary import EMPTY_SUMMARY, ShardSummary
from beam_runner_model.times import MIN_TIMESTAMP
from beam_runner_model.windows import GLOBAL_WINDOW

from beam_runner_engine.scheduler.commands import Bundle, Command, OpenBundles
from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.events import BundleDone, Event, Output, Residual, Start
from beam_runner_engine.scheduler.scheduler import Scheduler
from beam_runner_engine.scheduler.specs import GraphSpec, Limits, StageKind, StageSpec

IDLE = [10, 100, 1_000]
SIZES = [(10, 10), (100, 10), (1_000, 10), (10, 100), (10, 1_000), (10, 10_000)]
MOST = 2.0
EVENTS = 10_000
ROUNDS = 5
Job = TypeVar("Job")
WINDOWS = frozenset({GLOBAL_WINDOW})


def piece(time_ms: int, shard: int) -> Data:
    return Data(None, DataStatistics(1, 100, time_ms, shard, WINDOWS))


class Stream:
    """Endless source followed by stages that are alternately ordinary and stateful.

    Each element passes all stages. Each stateful shard with an element keeps a hold and a timer.
    The time of both is the element's time plus as many ms as there are shards. Most shards
    therefore have a timer at any time.
    """

    def __init__(self, stages: int, shards: int) -> None:
        specs = [StageSpec("source", ("root",), ("c0",), splittable=True)]
        for number in range(1, stages):
            kind = StageKind.STATEFUL if number % 2 else StageKind.ORDINARY
            outputs = (f"c{number}",) if number < stages - 1 else ()
            specs.append(StageSpec(f"stage{number}", (f"c{number - 1}",), outputs, kind))
        self.outputs = {spec.name: spec.outputs for spec in specs}
        self.kinds = {spec.name: spec.is_keyed for spec in specs}
        self.shards = shards
        self.clock = 0
        self.scheduler = Scheduler(GraphSpec(tuple(specs), ("root",)), Limits(parallelism=8))
        self.source: Bundle | None = None
        self.queue: list[Bundle] = []
        self.take(
            self.scheduler.handle_event(Start(roots=(Output("root", piece(MIN_TIMESTAMP, 0)),)))
        )

    def take(self, commands: tuple[Command, ...]) -> None:
        for command in commands:
            if isinstance(command, OpenBundles):
                for bundle in command.bundles:
                    if bundle.stage == "source":
                        self.source = bundle
                    else:
                        self.queue.append(bundle)

    def next_event(self) -> BundleDone:
        if self.queue:
            return self.answer(self.queue.pop())
        assert self.source is not None
        source, self.source = self.source, None
        self.clock += 1
        return BundleDone(
            source.number,
            1,
            (Output("c0", piece(self.clock, self.clock % self.shards)),),
            (Residual(piece(MIN_TIMESTAMP, 0), watermark=self.clock + 1),),
        )

    def answer(self, bundle: Bundle) -> BundleDone:
        outputs = tuple(
            Output(name, piece(one.data.facts.min_timestamp, one.data.facts.shard or 0))
            for one in bundle.inputs
            for name in self.outputs[bundle.stage]
        )
        if not self.kinds[bundle.stage]:
            return BundleDone(bundle.number, 1, outputs)
        summary = EMPTY_SUMMARY
        if bundle.inputs:
            timer = bundle.inputs[0].data.facts.min_timestamp + self.shards
            summary = ShardSummary({timer: 1}, next_event_timer=timer)
        return BundleDone(bundle.number, 1, outputs, summary=summary)

    def run(self, count: int) -> list[Event]:
        """Handles events and returns them."""
        events: list[Event] = []
        for _ in range(count):
            event = self.next_event()
            events.append(event)
            self.take(self.scheduler.handle_event(event))
        return events


def seconds(snapshot: bytes, events: list[Event]) -> float:
    """Returns the CPU time (seconds) of these events, starting from a snapshot."""
    scheduler = pickle.loads(snapshot)
    gc.collect()
    gc.freeze()
    start = time.process_time()
    for event in events:
        scheduler.handle_event(event)
    took = time.process_time() - start
    gc.unfreeze()
    return took


def in_full_swing(stages: int, shards: int) -> tuple[bytes, list[Event]]:
    """Returns a streaming job that has reached a steady state, and the next events of the job."""
    stream = Stream(stages, shards)
    stream.run(12 * max(stages, shards))
    snapshot = pickle.dumps(stream.scheduler)
    return snapshot, stream.run(EVENTS)


def idle(stages: int) -> tuple[bytes, list[Event]]:
    """Returns events that advance the watermark through idle stages."""
    specs = [StageSpec("source", ("root",), ("c0",), splittable=True)]
    for number in range(1, stages):
        specs.append(StageSpec(f"stage{number}", (f"c{number - 1}",), (f"c{number}",)))
    scheduler = Scheduler(GraphSpec(tuple(specs), ("root",)))
    scheduler.handle_event(Start(roots=(Output("root", piece(MIN_TIMESTAMP, 0)),)))
    events: list[Event] = [
        BundleDone(step, 1, residuals=(Residual(piece(MIN_TIMESTAMP, 0), watermark=step),))
        for step in range(2_000)
    ]
    return pickle.dumps(scheduler), events


def microseconds(jobs: dict[Job, tuple[bytes, list[Event]]]) -> dict[Job, float]:
    """Returns the cost per event of each job: the minimum over several rounds."""
    best = dict.fromkeys(jobs, float("inf"))
    for _ in range(ROUNDS):
        for job, (snapshot, events) in jobs.items():
            best[job] = min(best[job], seconds(snapshot, events) / len(events) * 1e6)
    return best


def main() -> int:
    """Prints the tables. Returns 1 if an event of a large job costs too much, otherwise 0."""
    costs = microseconds({size: in_full_swing(*size) for size in SIZES})
    print("| stages | shards | microseconds an event | events a second | times the smallest |")
    print("|---|---|---|---|---|")
    for (stages, shards), cost in costs.items():
        ratio = cost / costs[SIZES[0]]
        print(f"| {stages:,} | {shards:,} | {cost:.1f} | {1e6 / cost:,.0f} | {ratio:.2f} |")
    print()
    print("| idle stages | microseconds an event | per stage |\n|---|---|---|")
    for stages, cost in microseconds({stages: idle(stages) for stages in IDLE}).items():
        print(f"| {stages:,} | {cost:.1f} | {cost / stages:.2f} |")
    worst = max(costs.values()) / costs[SIZES[0]]
    print(f"The dearest event costs {worst:.2f} times the smallest job's, {MOST} is allowed.")
    return int(worst > MOST)


if __name__ == "__main__":
    sys.exit(main())
