"""Random TestStreams: windows, triggers, lateness and accumulation, and the engine's expected panes.

Several groupings, each with a separate strategy, read one script. Each event of a script is one
element, a watermark, or a step of the clock. The oracle is the engine's grouper, called event by
event in a loop, without scheduler, bundles, stores on disk or coders. Other readers have state and
timers, or side inputs; their oracles are models.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any, TypeAlias

import apache_beam as beam
import attrs
import beside_streams
import scripts
import sink
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms import trigger as beam_triggers
from apache_beam.transforms.window import TimestampedValue, WindowFn
from apache_beam.utils.timestamp import Timestamp
from beam_runner_engine.keyed.grouping import TriggeredGrouper
from beam_runner_engine.keyed.groups import WindowPane
from beam_runner_engine.keyed.now import CurrentTimes
from beam_runner_engine.testing.stores import MemoryCellStore
from beam_runner_model import strategy as strategies
from beam_runner_model import triggers
from beam_runner_model import window_fns as engine_windows
from beam_runner_model.times import MAX_TIMESTAMP
from beam_runner_model.timestamp_combiners import TimestampCombiner
from beam_runner_model.window_coders import decode_window, encode_window
from beam_runner_model.windows import IntervalWindow
from beside_streams import Combining, keyed_text, last_milliseconds
from typed import Collection
from windows import COMBINERS, GLOBAL, Windows, window_fn

_START = 1_000
"""First event time, seconds."""
_KIND = ("tuple", "str", ("bag", "int"))
_ENGINE_COMBINERS = {
    "end": TimestampCombiner.END_OF_WINDOW,
    "earliest": TimestampCombiner.EARLIEST,
    "latest": TimestampCombiner.LATEST,
}


@attrs.frozen
class Grouping:
    """Grouping of a reader; times in seconds, triggers as nested tuples."""

    fn: tuple[Any, ...]
    trigger: tuple[Any, ...]
    accumulating: bool
    lateness: int
    combiner: str


@attrs.frozen
class Playing:
    """Reader that runs scripts with state and timers; lateness in seconds."""

    fn: tuple[Any, ...]
    lateness: int = 1_000_000


Reader: TypeAlias = Grouping | Playing | Combining


@attrs.frozen
class StreamSpec:
    """Script and its readers.

    Attributes:
        events: ``("element", key, value, time)``, ``("watermark", time)`` or ``("clock",
            seconds)``.
        groupings: one grouping for each reader.
    """

    events: tuple[tuple[Any, ...], ...]
    groupings: tuple[Reader, ...]


def random_stream(seed: str, readers: int) -> StreamSpec:
    """Returns a random script with this number of readers, reproducible by its seed."""
    rng = random.Random(seed)
    watermark, events = _START - 5, []
    for number in range(rng.randint(3, 20)):
        kind = rng.choice(["element", "element", "element", "watermark", "clock"])
        if kind == "element":
            time = _START + rng.randrange(70)
            events.append((kind, rng.choice("ab"), number, time))
        elif kind == "watermark":
            watermark += rng.randint(1, 30)
            events.append((kind, watermark))
        else:
            events.append((kind, rng.randint(1, 15)))
    return StreamSpec(tuple(events), tuple(_random_reader(rng) for _ in range(readers)))


def _random_reader(rng: random.Random) -> Reader:
    if rng.random() < 0.1:
        return beside_streams.random_combining(rng)
    if rng.random() < 0.25:
        fns = [GLOBAL, ("fixed", 20, 0), ("fixed", 60, 7), ("sliding", 20, 10, 5)]
        return Playing(rng.choice(fns), rng.choice([0, 15, 1_000_000]))
    return _random_grouping(rng)


def _random_grouping(rng: random.Random) -> Grouping:
    fns = [GLOBAL, ("fixed", 20, 0), ("sliding", 20, 10, 5), ("sliding", 5, 15, 0), ("sessions", 7)]
    return Grouping(
        rng.choice(fns),
        _random_trigger(rng, 2),
        rng.random() < 0.5,
        rng.choice([0, 5, 30, 1000]),
        rng.choice(list(COMBINERS)),
    )


def _random_trigger(rng: random.Random, depth: int) -> tuple[Any, ...]:
    leaves = [
        ("default",),
        ("always",),
        ("count", rng.randint(1, 4)),
        ("clock", rng.randint(1, 20)),
    ]
    if depth == 0 or rng.random() < 0.3:
        return rng.choice([*leaves, ("watermark", None, None)])
    parts = [_random_trigger(rng, depth - 1) for _ in range(rng.randint(1, 3))]
    some = [None, *parts]
    return rng.choice(
        [
            ("repeatedly", parts[0]),
            ("watermark", rng.choice(some), rng.choice(some)),
            ("all", *parts),
            ("any", *parts),
            ("each", *parts),
            ("until", parts[0], parts[-1]),
        ]
    )


def build(root: Any, spec: StreamSpec, name: str, folder: str) -> None:
    """Adds the script and all its readers to a pipeline."""
    # If the script moves the clock, its clock counts; otherwise the system clock, which advances by
    # itself.
    stream = TestStream(coder=beam.coders.FastPrimitivesCoder()).advance_processing_time(1)
    for event in spec.events:
        match event:
            case ("element", key, value, time):
                stream = stream.add_elements([TimestampedValue((key, value), time)])
            case ("watermark", time):
                stream = stream.advance_watermark_to(time)
            case ("clock", seconds):
                stream = stream.advance_processing_time(seconds)
    pairs = root | f"{name}/Stream" >> stream.advance_watermark_to_infinity()
    pairs = pairs | f"{name}/Pairs" >> beam.Map(_same).with_output_types(tuple[str, int])
    for number, grouping in enumerate(spec.groupings):
        label = f"{name}/{number}"
        match grouping:
            case Playing():
                _build_playing(pairs, grouping, folder, label)
            case Combining():
                beside_streams.build(pairs, grouping, folder, label)
            case Grouping():
                _build_grouping(pairs, grouping, folder, label)


def _build_grouping(pairs: Any, grouping: Grouping, folder: str, label: str) -> None:
    mode = beam_triggers.AccumulationMode
    windowed = pairs | f"{label}/Windows" >> beam.WindowInto(
        window_fn(grouping.fn),
        trigger=_of_beam(grouping.trigger),
        accumulation_mode=mode.ACCUMULATING if grouping.accumulating else mode.DISCARDING,
        timestamp_combiner=COMBINERS[grouping.combiner],
        allowed_lateness=grouping.lateness,
    )
    grouped = windowed | f"{label}/Group" >> beam.GroupByKey()
    sink.keep(Collection(grouped, _KIND, Windows(), label), folder, label)


def _build_playing(pairs: Any, playing: Playing, folder: str, label: str) -> None:
    windowed = pairs | f"{label}/Windows" >> beam.WindowInto(
        window_fn(playing.fn), allowed_lateness=playing.lateness
    )
    played = windowed | f"{label}/Play" >> beam.ParDo(scripts.Played(at_once=True))
    told = played | f"{label}/Tell" >> beam.MapTuple(keyed_text).with_output_types(str)
    # Output of a bundle that is restarted, because a timer fired too early, stays in its file.
    told = told | f"{label}/Apart" >> beam.Reshuffle()
    sink.keep(Collection(told, "str", Windows(), label), folder, label)


def expected(spec: StreamSpec, name: str) -> sink.Outputs:
    """Returns the expected output of all readers."""
    outputs: sink.Outputs = {}
    for number, grouping in enumerate(spec.groupings):
        match grouping:
            case Playing():
                rows = _played(spec.events, grouping)
            case Combining():
                rows = beside_streams.combined(spec.events, grouping)
            case Grouping():
                rows = _grouped(spec.events, _of_engine(grouping))
        if rows:
            outputs[f"{name}/{number}"] = rows
    return outputs


def _grouped(
    events: tuple[tuple[Any, ...], ...], strategy: strategies.WindowingStrategy
) -> Counter[str]:
    store, now, rows = MemoryCellStore(), CurrentTimes(), Counter[str]()
    held = MAX_TIMESTAMP
    for event in (*events, ("watermark", None)):
        grouper = TriggeredGrouper(strategy, store)
        now = attrs.evolve(now, output_watermark=min(now.watermark, held))
        match event:
            case ("element", key, value, time):
                windows = engine_windows.assign_windows(strategy.window_fn, 1000 * time)
                encoded = [encode_window(window) for window in windows]
                many = len(encoded)
                times, values = [1000 * time] * many, [value] * many
                panes = grouper.process_elements([key.encode()] * many, encoded, times, values, now)
            case ("watermark", time):
                now = attrs.evolve(now, watermark=MAX_TIMESTAMP if time is None else 1000 * time)
                panes = grouper.advance_time(now)
            case ("clock", seconds):
                now = attrs.evolve(now, processing_time=now.processing_time + 1000 * seconds)
                panes = grouper.advance_time(now)
        commit = grouper.finish_bundle()
        store.commit_deltas(commit.deltas)
        held = min((time for time, _ in commit.summary.holds), default=MAX_TIMESTAMP)
        rows.update(_row(strategy, pane) for pane in panes)
    return rows


def _played(events: tuple[tuple[Any, ...], ...], playing: Playing) -> Counter[str]:
    models: dict[tuple[str, Any], scripts.Model] = {}
    rows, watermark = Counter[str](), -1

    def is_over(window: Any) -> bool:
        return watermark > last_milliseconds(window) + 1000 * playing.lateness

    for event in (*events, ("watermark", None)):
        match event:
            case ("element", key, number, time):
                assigned = window_fn(playing.fn).assign(WindowFn.AssignContext(Timestamp(time)))
                for window in (each for each in assigned if not is_over(each)):
                    if (key, window) not in models:
                        models[key, window] = scripts.Model(scripts.span(window)[1])
                    text = models[key, window].element(number, 1000 * time)
                    rows[_played_row(key, window, text)] += 1
            case ("watermark", time):
                watermark = MAX_TIMESTAMP if time is None else 1000 * time
        for (key, window), model in list(models.items()):
            texts = list(model.ring(watermark))
            if is_over(window) or event == ("watermark", None):
                texts += model.expire(loops=event == ("watermark", None))
                del models[key, window]
            rows.update(_played_row(key, window, text) for text in texts)
    return rows


def _played_row(key: str, window: Any, text: str) -> str:
    last = 1000 * last_milliseconds(window)
    return f"str {keyed_text(key, text)!r} @{sink.told(f'{last} {window}')} pane 3 0 0 11"


def _row(strategy: strategies.WindowingStrategy, group: WindowPane) -> str:
    """Returns a row in the format of the sink."""
    window: Any = decode_window(strategy.window_coder, group.window)
    shown = "GlobalWindow"
    if isinstance(window, IntervalWindow):
        shown = f"[{float(Timestamp(window.start / 1000))}, {float(Timestamp(window.end / 1000))})"
    pane = group.pane
    values = ", ".join(sorted(f"int {value}" for value in group.values))
    return (
        f"(str {group.key.decode()!r}, bag{{{values}}}) "
        f"@{sink.told(f'{1000 * group.timestamp} {shown}')} "
        f"pane {int(pane.timing)} {pane.index} {pane.nonspeculative_index} "
        f"{pane.is_first:d}{pane.is_last:d}"
    )


def _of_engine(grouping: Grouping) -> strategies.WindowingStrategy:
    match grouping.fn:
        case ("global",):
            fn: Any = engine_windows.GlobalWindows()
        case ("fixed", size, offset):
            fn = engine_windows.FixedWindows(1000 * size, 1000 * offset)
        case ("sliding", size, period, offset):
            fn = engine_windows.SlidingWindows(1000 * size, 1000 * period, 1000 * offset)
        case ("sessions", gap):
            fn = engine_windows.Sessions(1000 * gap)
    mode, merge = strategies.AccumulationMode, strategies.MergeStatus
    return strategies.WindowingStrategy(
        window_fn=fn,
        merge_status=merge.NEEDS_MERGE if grouping.fn[0] == "sessions" else merge.NON_MERGING,
        trigger=_engine_trigger(grouping.trigger),
        accumulation_mode=mode.ACCUMULATING if grouping.accumulating else mode.DISCARDING,
        allowed_lateness=1000 * grouping.lateness,
        timestamp_combiner=_ENGINE_COMBINERS[grouping.combiner],
    )


def _engine_trigger(spec: tuple[Any, ...] | None) -> Any:
    match spec:
        case None:
            return None
        case ("default",):
            return triggers.DefaultTrigger()
        case ("always",):
            return triggers.Always()
        case ("count", count):
            return triggers.AfterCount(count)
        case ("clock", seconds):
            return triggers.AfterProcessingTime((triggers.Delay(1000 * seconds),))
    kinds = {
        "repeatedly": triggers.Repeatedly,
        "watermark": triggers.AfterEndOfWindow,
        "until": triggers.OrFinally,
    }
    parts = tuple(map(_engine_trigger, spec[1:]))
    if spec[0] in kinds:
        return kinds[spec[0]](*parts)
    several = {"all": triggers.AfterAll, "any": triggers.AfterAny, "each": triggers.AfterEach}
    return several[spec[0]](parts)


def _of_beam(spec: tuple[Any, ...] | None) -> Any:
    match spec:
        case None:
            return None
        case ("default",):
            return beam_triggers.DefaultTrigger()
        case ("always",):
            return beam_triggers.Always()
        case ("count", count):
            return beam_triggers.AfterCount(count)
        case ("clock", seconds):
            return beam_triggers.AfterProcessingTime(seconds)
    kinds = {
        "repeatedly": beam_triggers.Repeatedly,
        "watermark": beam_triggers.AfterWatermark,
        "all": beam_triggers.AfterAll,
        "any": beam_triggers.AfterAny,
        "each": beam_triggers.AfterEach,
        "until": beam_triggers.OrFinally,
    }
    return kinds[spec[0]](*map(_of_beam, spec[1:]))


def _same(pair: tuple[str, int]) -> tuple[str, int]:
    return pair
