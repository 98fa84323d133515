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
import beam_runner_engine as engine
from beam_runner_engine.testing.stores import MemoryStore

SHARDS = 4


@attrs.frozen
class Row:
    """An element: its value, its timestamp (ms) and its one window."""

    value: Any
    timestamp: engine.Timestamp = engine.MIN_TIMESTAMP
    window: engine.Window = engine.GLOBAL_WINDOW


@attrs.frozen
class Read:
    """A source: steps of a new watermark (ms) and the timestamped values that come before it."""

    steps: Sequence[tuple[engine.Timestamp, Sequence[tuple[engine.Timestamp, Any]]]]
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
    windows: engine.WindowFn | None = None
    side_windows: engine.WindowFn = attrs.field(factory=engine.GlobalWindows)


@attrs.frozen
class GroupByKey:
    """Groups pairs by key and window, and puts out a key and a list of values for each pane."""

    input: str
    strategy: engine.WindowingStrategy = attrs.field(factory=engine.WindowingStrategy)


Transform: TypeAlias = Read | FlatMap | GroupByKey


def stage_of(name: str, transform: Transform) -> engine.StageSpec:
    """Returns a transform as the scheduler sees it; its output has its name."""
    match transform:
        case Read():
            return engine.StageSpec(name, (transform.input,), (name,), splittable=True)
        case GroupByKey():
            return engine.StageSpec(name, (transform.input,), (name,), engine.StageKind.GROUPING)
        case FlatMap():
            mapping = engine.SideWindowOf(transform.side_windows)
            sides = tuple(engine.SideInputSpec(side, side, mapping) for side in transform.sides)
            return engine.StageSpec(name, (transform.input,), (name,), side_inputs=sides)


class InMemoryRunner:
    """Runs a pipeline: transforms by name, each reading the output of another or "impulse"."""

    def __init__(self, pipeline: Mapping[str, Transform]) -> None:
        self.pipeline = pipeline
        stages = tuple(stage_of(name, transform) for name, transform in pipeline.items())
        self.scheduler = engine.Scheduler(engine.GraphSpec(stages, roots=("impulse",)))
        self.stores: defaultdict[tuple[str, int | None], MemoryStore] = defaultdict(MemoryStore)
        self.collections: defaultdict[str, list[Row]] = defaultdict(list)
        self.time = 0

    def run(self) -> dict[str, list[Row]]:
        """Returns all that each transform put out; RuntimeError with the reason if the job fails."""
        impulse = (Row(b""),)
        commands = deque(self.handle(engine.Start(self.time, tuple(outputs("impulse", impulse)))))
        bundles: deque[engine.Bundle] = deque()
        while True:
            if not commands:
                if bundles:
                    commands.extend(self.handle(self.process(bundles.popleft())))
                else:
                    commands.extend(self.handle(engine.Tick(self.time)))
                continue
            match commands.popleft():
                case engine.OpenBundles(_, opened):
                    bundles.extend(opened)
                case engine.WakeAt(time):
                    self.time = time
                case engine.FinishJob():
                    return dict(self.collections)
                case engine.FailJob(reason):
                    raise RuntimeError(reason)

    def handle(self, event: engine.Event) -> tuple[Any, ...]:
        """Gives an event to the scheduler, and keeps what it commits."""
        if isinstance(event, engine.BundleDone):
            for output in event.outputs:
                self.collections[output.collection].extend(output.data.ref)
        return self.scheduler.handle(event)

    def process(self, bundle: engine.Bundle) -> engine.Event:
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
            return engine.BundleFailed(bundle.number, bundle.attempt, repr(error))

    def read(self, transform: Read, bundle: engine.Bundle) -> engine.BundleDone:
        """Takes one step; what is left is a residual, with the watermark the step came to."""
        step = bundle.inputs[0].estimator_state or 0
        watermark, values = transform.steps[step]
        rows = tuple(Row(value, time) for time, value in values)
        if step + 1 == len(transform.steps):
            return done(bundle, rows)
        rest = engine.Residual(bundle.inputs[0].data, watermark=watermark, estimator_state=step + 1)
        return attrs.evolve(done(bundle, rows), residuals=(rest,))

    def group(self, transform: GroupByKey, bundle: engine.Bundle) -> engine.BundleDone:
        """Adds the bundle's elements to the shard, then lets time come to where the bundle ends."""
        strategy, store = transform.strategy, self.stores[bundle.stage, bundle.shard]
        grouper = engine.TriggeredGrouper(strategy, store)
        rows = [row for one in bundle.inputs for row in one.data.ref]
        begin, end = (
            engine.Now(watermark, bundle.processing_time, bundle.output_watermark)
            for watermark in (bundle.input_watermark, bundle.end_watermark)
        )
        panes = grouper.process(
            [repr(row.value[0]).encode() for row in rows],
            [engine.encode_window(row.window) for row in rows],
            [row.timestamp for row in rows],
            [row.value for row in rows],
            begin,
        )
        panes += grouper.advance(end)
        fired = tuple(
            Row(
                (pane.values[0][0], [value for _, value in pane.values]),
                pane.timestamp,
                engine.decode_window(strategy.window_coder, pane.window),
            )
            for pane in panes
            if pane.values
        )
        commit = grouper.commit()
        store.commit(commit.deltas)
        return attrs.evolve(done(bundle, fired), summary=commit.summary)


def flat_map(transform: FlatMap, bundle: engine.Bundle) -> Iterator[Row]:
    """Yields what the user's function makes of the inputs, in the windows that are meant."""
    sides: dict[tuple[str, engine.Window | None], tuple[engine.Data, ...]] = {
        (side.name, side.window): side.data for side in bundle.side_inputs
    }
    side_window = engine.SideWindowOf(transform.side_windows).side_window
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
                into: tuple[engine.Window, ...] = (row.window,)
                if transform.windows is not None:
                    into = engine.assign_windows(transform.windows, row.timestamp)
                yield from (Row(value, row.timestamp, window) for window in into)


def done(bundle: engine.Bundle, rows: Sequence[Row]) -> engine.BundleDone:
    """Returns the commit of a bundle whose stage put out these rows."""
    return engine.BundleDone(bundle.number, bundle.attempt, tuple(outputs(bundle.stage, rows)))


def outputs(collection: str, rows: Sequence[Row]) -> Iterator[engine.Output]:
    """Cuts rows by key shard, in case a grouping reads them, and tells the facts of each part."""
    shards: defaultdict[int, list[Row]] = defaultdict(list)
    for row in rows:
        key = row.value[0] if isinstance(row.value, tuple) else None
        shards[sum(repr(key).encode()) % SHARDS].append(row)
    for shard, members in shards.items():
        facts = engine.DataFacts(
            count=len(members),
            size=len(members),
            min_timestamp=min(row.timestamp for row in members),
            shard=shard,
            windows=frozenset(row.window for row in members),
        )
        yield engine.Output(collection, engine.Data(tuple(members), facts))


def main() -> None:
    """Counts words in windows of ten seconds, while they come in."""
    ten_seconds = engine.FixedWindows(10_000)
    lines = Read(
        (
            (5_000, [(1_000, "to be or"), (4_000, "not to be")]),
            (20_000, [(12_000, "that is"), (9_000, "the question")]),
        )
    )
    pipeline: dict[str, Transform] = {
        "lines": lines,
        "words": FlatMap("lines", lambda line: ((w, 1) for w in line.split()), windows=ten_seconds),
        "grouped": GroupByKey("words", engine.WindowingStrategy(ten_seconds)),
        "counted": FlatMap("grouped", lambda pair: [(pair[0], sum(pair[1]))]),
    }
    for row in InMemoryRunner(pipeline).run()["counted"]:
        print(f"until {row.timestamp + 1} ms: {row.value[0]} {row.value[1]}")


if __name__ == "__main__":
    main()
