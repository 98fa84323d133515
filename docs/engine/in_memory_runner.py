"""A whole runner over the engine, in memory: read it to see all that a runner has to do.

The engine's scheduler says which stage is to process which data; its keyed half groups by key and
window. What is left to a runner is here: keep the data, run user code, answer with what came of it.
Instead of DoFns there are pure functions, and instead of a cluster a loop. Run it with `python
docs/engine/in_memory_runner.py`.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import attrs
from beam_runner_engine.keyed.grouping import TriggeredGrouper
from beam_runner_engine.keyed.now import CurrentTimes
from beam_runner_engine.scheduler.commands import (
    Bundle,
    FailJob,
    FinishJob,
    OpenBundles,
    RequestTick,
)
from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.events import (
    BundleDone,
    BundleFailed,
    Event,
    Output,
    Residual,
    Start,
    Tick,
)
from beam_runner_engine.scheduler.scheduler import Scheduler
from beam_runner_engine.scheduler.specs import (
    DefaultWindowMapping,
    GraphSpec,
    SideInputSpec,
    StageKind,
    StageSpec,
)
from beam_runner_engine.testing.stores import MemoryCellStore
from beam_runner_model.facts import DataStatistics
from beam_runner_model.strategy import WindowingStrategy
from beam_runner_model.times import MIN_TIMESTAMP, Timestamp
from beam_runner_model.window_coders import decode_window, encode_window
from beam_runner_model.window_fns import FixedWindows, GlobalWindows, WindowFn, assign_windows
from beam_runner_model.windows import GLOBAL_WINDOW, Window

SHARDS = 4


class Row(NamedTuple):
    """An element: its value, its timestamp (ms) and its one window."""

    value: Any
    timestamp: Timestamp = MIN_TIMESTAMP
    window: Window = GLOBAL_WINDOW


Process: TypeAlias = Callable[[Bundle, MemoryCellStore], tuple[list[Row], dict[str, Any]]]
"""Makes of a bundle, and the state of its shard, the rows it puts out, and what else is to tell."""
Transform: TypeAlias = tuple[StageSpec, Process]
Steps: TypeAlias = Sequence[tuple[Timestamp, Sequence[tuple[Timestamp, Any]]]]


def read(name: str, steps: Steps) -> Transform:
    """A source: each second a step, of a new watermark (ms) and timestamped values before it."""

    def process(bundle: Bundle, _: MemoryCellStore) -> tuple[list[Row], dict[str, Any]]:
        """Takes one step; what is left is a residual for later, with the watermark it came to."""
        source, step = bundle.inputs[0].data, bundle.inputs[0].estimator_state or 0
        watermark, values = steps[step]
        rest = Residual(source, 1_000, watermark, estimator_state=step + 1)
        residuals = (rest,) if step + 1 < len(steps) else ()
        return [Row(value, time) for time, value in values], {"residuals": residuals}

    return StageSpec(name, ("impulse",), (name,), splittable=True), process


def flat_map(
    name: str,
    input: str,
    function: Callable[..., Iterable[Any]],
    windows: WindowFn | None = None,
    sides: Sequence[str] = (),
    side_windows: WindowFn | None = None,
) -> Transform:
    """Calls `function(value, *side inputs)` and puts out the values it returns.

    `windows` gives them new windows. A side input is the list of the values in the element's
    window, which is of `side_windows`.
    """
    mapping = DefaultWindowMapping(side_windows or GlobalWindows())

    def process(bundle: Bundle, _: MemoryCellStore) -> tuple[list[Row], dict[str, Any]]:
        """Goes through the elements in the windows that are meant; the others come later."""
        out: list[Row] = []
        for one in bundle.inputs:
            for value, time, window in rows_of([one.data], one.windows):
                read = {
                    side.name: [row.value for row in rows_of(side.data, [side.window])]
                    for side in bundle.side_inputs
                    if side.window == mapping.map_window(window)
                }
                into = (window,) if windows is None else assign_windows(windows, time)
                for result in function(value, *(read[side] for side in sides)):
                    out += [Row(result, time, new) for new in into]
        return out, {}

    inputs = tuple(SideInputSpec(side, side, mapping) for side in sides)
    return StageSpec(name, (input,), (name,), side_inputs=inputs), process


def group_by_key(name: str, input: str, strategy: WindowingStrategy) -> Transform:
    """Groups pairs by key and window, and puts out a key and a list of values for each pane."""

    def process(bundle: Bundle, store: MemoryCellStore) -> tuple[list[Row], dict[str, Any]]:
        """Adds the bundle's elements to the shard, then lets time come to where the bundle ends."""
        now = CurrentTimes(bundle.input_watermark, bundle.processing_time, bundle.output_watermark)
        rows = rows_of(one.data for one in bundle.inputs)
        keys = [repr(row.value[0]).encode() for row in rows]
        windows = [encode_window(row.window) for row in rows]
        times, values = [row.timestamp for row in rows], [row.value for row in rows]
        grouper = TriggeredGrouper(strategy, store)
        panes = grouper.process_elements(keys, windows, times, values, now)
        panes += grouper.advance_time(attrs.evolve(now, watermark=bundle.end_watermark))
        commit = grouper.finish_bundle()
        store.commit_deltas(commit.deltas)
        out = []
        for pane in panes:
            if pane.values:
                grouped = (pane.values[0][0], [value for _, value in pane.values])
                window = decode_window(strategy.window_coder, pane.window)
                out.append(Row(grouped, pane.timestamp, window))
        return out, {"summary": commit.summary}

    return StageSpec(name, (input,), (name,), StageKind.GROUPING), process


def run(*pipeline: Transform) -> dict[str, list[Row]]:
    """Runs transforms, each of which reads the output of another or "impulse".

    Returns all that each of them put out; raises RuntimeError with the reason if the job fails.
    """
    stages = tuple(stage for stage, _ in pipeline)
    scheduler = Scheduler(GraphSpec(stages, roots=("impulse",)))
    processes = {stage.name: process for stage, process in pipeline}
    stores: defaultdict[tuple[str, int | None], MemoryCellStore] = defaultdict(MemoryCellStore)
    collections: defaultdict[str, list[Row]] = defaultdict(list)

    def answer(bundle: Bundle) -> Event:
        """Runs a bundle and keeps what it puts out; or says why it failed."""
        try:
            rows, more = processes[bundle.stage](bundle, stores[bundle.stage, bundle.shard])
        except Exception as error:
            return BundleFailed(bundle.number, bundle.attempt, repr(error))
        collections[bundle.stage] += rows
        return BundleDone(bundle.number, bundle.attempt, outputs(bundle.stage, rows), **more)

    time = 0
    events: deque[Event] = deque([Start(time, outputs("impulse", [Row(b"")]))])
    while True:
        for command in scheduler.handle_event(events.popleft() if events else Tick(time)):
            match command:
                case OpenBundles(_, bundles):
                    events.extend(map(answer, bundles))
                case RequestTick(alarm):
                    time = alarm  # Nothing takes time here, so it rings when all else is done.
                case FinishJob():
                    return dict(collections)
                case FailJob(reason):
                    raise RuntimeError(reason)


def rows_of(data: Iterable[Data], windows: Any = None) -> list[Row]:
    """Returns the rows that data stands for; `windows` are those that are meant, None for all."""
    return [row for one in data for row in one.ref if windows is None or row.window in windows]


def outputs(collection: str, rows: Iterable[Row]) -> tuple[Output, ...]:
    """Cuts rows by key shard, in case a grouping reads them, and tells the facts of each part."""
    shards: defaultdict[int, list[Row]] = defaultdict(list)
    for row in rows:
        key = row.value[0] if isinstance(row.value, tuple) else None
        shards[sum(repr(key).encode()) % SHARDS].append(row)
    parts = []
    for shard, members in shards.items():
        times, windows = {row.timestamp for row in members}, {row.window for row in members}
        facts = DataStatistics(len(members), len(members), min(times), shard, frozenset(windows))
        parts.append(Output(collection, Data(tuple(members), facts)))
    return tuple(parts)


def main() -> None:
    """Counts words in windows of ten seconds, while they come in."""
    windows = FixedWindows(10_000)
    first = (5_000, [(1_000, "to be or"), (4_000, "not to be")])
    then = (20_000, [(12_000, "that is"), (9_000, "the question")])
    collections = run(
        read("lines", [first, then]),
        flat_map("words", "lines", lambda line: [(word, 1) for word in line.split()], windows),
        group_by_key("grouped", "words", WindowingStrategy(windows)),
        flat_map("counted", "grouped", lambda pair: [(pair[0], sum(pair[1]))]),
    )
    for (word, count), time, _ in collections["counted"]:
        print(f"until {time + 1} ms: {word} {count}")


if __name__ == "__main__":
    main()
