"""A whole runner over the engine, in memory: read it to see all that a runner has to do.

The engine's scheduler says which stage is to process which data; its keyed half groups by key and
window. What is left to a runner is here: keep the data, run user code, answer with what came of it.
Instead of DoFns there are pure functions, and instead of a cluster a loop. Run it with `python
docs/engine/in_memory_runner.py`.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import attrs
from beam_runner_engine import scheduler
from beam_runner_engine.keyed.grouping import TriggeredGrouper
from beam_runner_engine.keyed.now import Now
from beam_runner_engine.testing.stores import MemoryStore
from beam_runner_engine.values.facts import DataFacts
from beam_runner_engine.values.strategy import WindowingStrategy
from beam_runner_engine.values.times import MIN_TIMESTAMP, Timestamp
from beam_runner_engine.values.window_coders import decode_window, encode_window
from beam_runner_engine.values.window_fns import (
    FixedWindows,
    GlobalWindows,
    WindowFn,
    assign_windows,
)
from beam_runner_engine.values.windows import GLOBAL_WINDOW, Window

SHARDS = 4


@attrs.frozen
class Row:
    """An element: its value, its timestamp (ms) and its one window."""

    value: Any
    timestamp: Timestamp = MIN_TIMESTAMP
    window: Window = GLOBAL_WINDOW


@attrs.frozen
class Read:
    """A source: steps of a new watermark (ms) and the timestamped values that come before it."""

    steps: Sequence[tuple[Timestamp, Sequence[tuple[Timestamp, Any]]]]
    input: str = "impulse"


@attrs.frozen
class FlatMap:
    """Calls `function(value, *side inputs)` and puts out the values it returns.

    `windows` gives them new windows. A side input is the list of the values in the element's
    window.
    """

    input: str
    function: Callable[..., Iterable[Any]]
    sides: tuple[str, ...] = ()
    windows: WindowFn | None = None
    side_windows: WindowFn = attrs.field(factory=GlobalWindows)


@attrs.frozen
class GroupByKey:
    """Groups pairs by key and window, and puts out a key and a list of values for each pane."""

    input: str
    strategy: WindowingStrategy = attrs.field(factory=WindowingStrategy)


Transform: TypeAlias = Read | FlatMap | GroupByKey


def stage_of(name: str, transform: Transform) -> scheduler.StageSpec:
    """Returns a transform as the scheduler sees it; its output has its name."""
    match transform:
        case Read():
            return scheduler.StageSpec(name, (transform.input,), (name,), splittable=True)
        case GroupByKey():
            return scheduler.StageSpec(
                name, (transform.input,), (name,), scheduler.StageKind.GROUPING
            )
        case FlatMap():
            mapping = scheduler.SideWindowOf(transform.side_windows)
            sides = tuple(scheduler.SideInputSpec(side, side, mapping) for side in transform.sides)
            return scheduler.StageSpec(name, (transform.input,), (name,), side_inputs=sides)


class InMemoryRunner:
    """Runs a pipeline: transforms by name, each reading the output of another or "impulse"."""

    def __init__(self, pipeline: Mapping[str, Transform]) -> None:
        self.pipeline = pipeline
        stages = tuple(stage_of(name, transform) for name, transform in pipeline.items())
        self.scheduler = scheduler.Scheduler(scheduler.GraphSpec(stages, roots=("impulse",)))
        self.stores: defaultdict[tuple[str, int | None], MemoryStore] = defaultdict(MemoryStore)
        self.collections: defaultdict[str, list[Row]] = defaultdict(list)
        self.time = 0

    def run(self) -> dict[str, list[Row]]:
        """Returns everything each transform put out; RuntimeError with the reason if the job fails."""
        impulse = (Row(b""),)
        commands = deque(
            self.handle(scheduler.Start(self.time, tuple(outputs("impulse", impulse))))
        )
        bundles: deque[scheduler.Bundle] = deque()
        while True:
            if not commands:
                if bundles:
                    commands.extend(self.handle(self.process(bundles.popleft())))
                else:
                    commands.extend(self.handle(scheduler.Tick(self.time)))
                continue
            match commands.popleft():
                case scheduler.OpenBundles(_, opened):
                    bundles.extend(opened)
                case scheduler.WakeAt(time):
                    self.time = time
                case scheduler.FinishJob():
                    return dict(self.collections)
                case scheduler.FailJob(reason):
                    raise RuntimeError(reason)

    def handle(self, event: scheduler.Event) -> tuple[Any, ...]:
        """Gives an event to the scheduler, and keeps what it commits."""
        if isinstance(event, scheduler.BundleDone):
            for output in event.outputs:
                self.collections[output.collection].extend(output.data.ref)
        return self.scheduler.handle(event)

    def process(self, bundle: scheduler.Bundle) -> scheduler.Event:
        """Runs a bundle and returns its answer: done with what came of it, or failed and why."""
        transform = self.pipeline[bundle.stage]
        try:
            match transform:
                case Read():
                    return self.read(transform, bundle)
                case FlatMap():
                    return done(bundle, tuple(flat_map(transform, bundle)))
                case GroupByKey():
                    return self.group(transform, bundle)
        except Exception as error:
            return scheduler.BundleFailed(bundle.number, bundle.attempt, repr(error))

    def read(self, transform: Read, bundle: scheduler.Bundle) -> scheduler.BundleDone:
        """Takes one step; what is left is a residual, with the watermark the step came to."""
        step = bundle.inputs[0].estimator_state or 0
        watermark, values = transform.steps[step]
        rows = tuple(Row(value, time) for time, value in values)
        if step + 1 == len(transform.steps):
            return done(bundle, rows)
        rest = scheduler.Residual(
            bundle.inputs[0].data, watermark=watermark, estimator_state=step + 1
        )
        return attrs.evolve(done(bundle, rows), residuals=(rest,))

    def group(self, transform: GroupByKey, bundle: scheduler.Bundle) -> scheduler.BundleDone:
        """Adds the bundle's elements to the shard, then lets time come to where the bundle ends."""
        strategy, store = transform.strategy, self.stores[bundle.stage, bundle.shard]
        grouper = TriggeredGrouper(strategy, store)
        rows = [row for one in bundle.inputs for row in one.data.ref]
        begin, end = (
            Now(watermark, bundle.processing_time, bundle.output_watermark)
            for watermark in (bundle.input_watermark, bundle.end_watermark)
        )
        panes = grouper.process(
            [repr(row.value[0]).encode() for row in rows],
            [encode_window(row.window) for row in rows],
            [row.timestamp for row in rows],
            [row.value for row in rows],
            begin,
        )
        panes += grouper.advance(end)
        fired = tuple(
            Row(
                (pane.values[0][0], [value for _, value in pane.values]),
                pane.timestamp,
                decode_window(strategy.window_coder, pane.window),
            )
            for pane in panes
            if pane.values
        )
        commit = grouper.commit()
        store.commit(commit.deltas)
        return attrs.evolve(done(bundle, fired), summary=commit.summary)


def flat_map(transform: FlatMap, bundle: scheduler.Bundle) -> Iterator[Row]:
    """Yields what the user's function makes of the inputs, in the windows that are meant."""
    sides = {(side.name, side.window): side.data for side in bundle.side_inputs}
    side_window = scheduler.SideWindowOf(transform.side_windows).side_window
    for one in bundle.inputs:
        for row in one.data.ref:
            if one.windows is not None and row.window not in one.windows:
                continue
            window = side_window(row.window)
            read = [
                [
                    other.value
                    for data in sides[name, window]
                    for other in data.ref
                    if other.window == window
                ]
                for name in transform.sides
            ]
            for value in transform.function(row.value, *read):
                into = (row.window,)
                if transform.windows is not None:
                    into = assign_windows(transform.windows, row.timestamp)
                yield from (Row(value, row.timestamp, window) for window in into)


def done(bundle: scheduler.Bundle, rows: Sequence[Row]) -> scheduler.BundleDone:
    """Returns the commit of a bundle whose stage put out these rows."""
    return scheduler.BundleDone(bundle.number, bundle.attempt, tuple(outputs(bundle.stage, rows)))


def outputs(collection: str, rows: Sequence[Row]) -> Iterator[scheduler.Output]:
    """Cuts rows by key shard, in case a grouping reads them, and tells the facts about each part."""
    shards: defaultdict[int, list[Row]] = defaultdict(list)
    for row in rows:
        key = row.value[0] if isinstance(row.value, tuple) else None
        shards[sum(repr(key).encode()) % SHARDS].append(row)
    for shard, members in shards.items():
        facts = DataFacts(
            count=len(members),
            size=len(members),
            min_timestamp=min(row.timestamp for row in members),
            shard=shard,
            windows=frozenset(row.window for row in members),
        )
        yield scheduler.Output(collection, scheduler.Data(tuple(members), facts))


def main() -> None:
    """Counts words in windows of ten seconds, while they come in."""
    ten_seconds = FixedWindows(10_000)
    lines = Read(
        (
            (5_000, [(1_000, "to be or"), (4_000, "not to be")]),
            (20_000, [(12_000, "that is"), (9_000, "the question")]),
        )
    )
    pipeline = {
        "lines": lines,
        "words": FlatMap("lines", lambda line: ((w, 1) for w in line.split()), windows=ten_seconds),
        "grouped": GroupByKey("words", WindowingStrategy(ten_seconds)),
        "counted": FlatMap("grouped", lambda pair: [(pair[0], sum(pair[1]))]),
    }
    for row in InMemoryRunner(pipeline).run()["counted"]:
        print(f"until {row.timestamp + 1} ms: {row.value[0]} {row.value[1]}")


if __name__ == "__main__":
    main()
