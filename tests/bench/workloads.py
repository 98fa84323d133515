"""Workloads: small pipelines, each of one kind, whose results are counted and compared."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import attrs
from apache_beam import coders
from apache_beam.metrics import Metrics
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms import trigger, userstate, window
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.window import TimestampedValue
from keyed_counts import KEYS, PAUSE, WARM, counted, of_key

_PIECES = 16
_SPREAD = 2_654_435_761
"""A prime: i times that, modulo the number of keys, looks random and is the same each time."""


@attrs.frozen
class Expected:
    """Expected result of a pipeline, which :class:`Tally` counts at its end.

    Attributes:
        count: number of elements; None if it is unknown.
        total: sum of their values.
    """

    count: int | None
    total: int


Build = Callable[[beam.Pipeline, int, Path], Expected]


@attrs.frozen
class Workload:
    """Workload of the benchmark.

    Attributes:
        build: function that adds the workload to a pipeline, with a number of elements and a
            folder.
        elements: number of elements at scale 1.
        title: description in words.
        streaming: whether the pipeline is unbounded.
    """

    build: Build
    elements: int
    title: str
    streaming: bool = False


WORKLOADS: dict[str, Workload] = {}


def workload(elements: int, title: str, *, streaming: bool = False) -> Callable[[Build], Build]:
    """Puts a function on the list of workloads under its name."""

    def enter(build: Build) -> Build:
        WORKLOADS[build.__name__] = Workload(build, elements, title, streaming)
        return build

    return enter


class Tally(beam.DoFn):
    """DoFn that counts elements and sums their values; it updates the metrics once per bundle to reduce the cost."""

    def __init__(self, value: Callable[[Any], int]) -> None:
        self._value = value

    def start_bundle(self) -> None:
        self._count = self._total = 0

    def process(self, element: Any) -> None:
        self._count += 1
        self._total += self._value(element)

    def finish_bundle(self) -> None:
        Metrics.counter("bench", "count").inc(self._count)
        Metrics.counter("bench", "total").inc(self._total)


class Latency(beam.DoFn):
    """DoFn that records the latency of each element since its emission; one line per bundle."""

    def __init__(self, folder: Path, born: Callable[[Any, float], float]) -> None:
        self._path = str(folder / "latencies")
        self._born = born

    def start_bundle(self) -> None:
        self._seconds: list[float] = []

    def process(self, element: Any, at: Any = beam.DoFn.TimestampParam) -> Iterator[Any]:
        self._seconds.append(time.time() - self._born(element, float(at)))
        yield element

    def finish_bundle(self) -> None:
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(self._seconds) + "\n")


def numbers(pipeline: beam.Pipeline, elements: int, label: str = "Numbers") -> beam.PCollection:
    """Returns a source of 0, 1, 2, ..., generated on the workers, in chunks that a runner can
    distribute.
    """
    pieces = [(elements * i // _PIECES, elements * (i + 1) // _PIECES) for i in range(_PIECES)]
    return (
        pipeline
        | f"{label}/Pieces" >> beam.Create(pieces)
        | f"{label}/Spread" >> beam.Reshuffle()
        | f"{label}/Count" >> beam.FlatMapTuple(count_up)
    )


def count_up(first: int, stop: int) -> Iterable[int]:
    return range(first, stop)


def end(pcollection: beam.PCollection, value: Callable[[Any], int]) -> None:
    _ = pcollection | "Tally" >> beam.ParDo(Tally(value))


def itself(number: int) -> int:
    return number


def value_of(pair: tuple[Any, int]) -> int:
    return pair[1]


def size_of(group: tuple[Any, Iterable[Any]]) -> int:
    return sum(1 for _ in group[1])


def sum_below(number: int) -> int:
    return number * (number - 1) // 2


@workload(1, "a trivial job")
def startup(pipeline: beam.Pipeline, elements: int, folder: Path) -> Expected:
    end(pipeline | beam.Create([1] * elements), itself)
    return Expected(elements, elements)


@workload(1_500_000, "ten Maps in a row")
def pardo(pipeline: beam.Pipeline, elements: int, folder: Path) -> Expected:
    result = numbers(pipeline, elements)
    for i in range(10):
        result = result | f"Add {i}" >> beam.Map(lambda n: n + 1).with_output_types(int)
    end(result, itself)
    return Expected(elements, sum_below(elements) + 10 * elements)


@workload(5_000_000, "words of text")
def wordcount(pipeline: beam.Pipeline, elements: int, folder: Path) -> Expected:
    text = folder.parent / f"text-{elements}"
    if not text.exists():
        write_text(text, elements)
    counts = (
        pipeline
        | beam.io.ReadFromText(str(text))
        | beam.FlatMap(str.split).with_output_types(str)
        | beam.Map(lambda word: (word, 1)).with_output_types(tuple[str, int])
        | beam.CombinePerKey(sum)
    )
    end(counts, value_of)
    return Expected(None, elements)


def write_text(path: Path, words: int) -> None:
    """Lines of ten words, few of them frequent and most of them rare."""
    chance = random.Random(1)
    vocabulary = [f"word{i:x}" for i in range(50_000)]
    with path.open("w", encoding="utf-8") as file:
        for start in range(0, words, 10):
            line = (
                int(min(49_999, chance.paretovariate(0.9) * 5))
                for _ in range(min(10, words - start))
            )
            file.write(" ".join(vocabulary[i] for i in line) + "\n")


@workload(2_000_000, "GroupByKey, values of 90 bytes, ten per key")
def gbk(pipeline: beam.Pipeline, elements: int, folder: Path) -> Expected:
    keys, pad = max(1, elements // 10), b"x" * 80
    pairs = numbers(pipeline, elements) | beam.Map(
        lambda n: (b"%010d" % (n * _SPREAD % keys), pad + b"%010d" % n)
    ).with_output_types(tuple[bytes, bytes])
    end(pairs | beam.GroupByKey(), size_of)
    return Expected(None, elements)


@workload(600_000, "CoGroupByKey of two")
def cogbk(pipeline: beam.Pipeline, elements: int, folder: Path) -> Expected:
    half = elements // 2
    sides = {
        name: numbers(pipeline, half, name)
        | f"Key {name}"
        >> beam.Map(lambda n: (b"%010d" % n, n)).with_output_types(tuple[bytes, int])
        for name in ("left", "right")
    }
    joined = sides | beam.CoGroupByKey()
    end(joined, lambda pair: sum(pair[1]["left"]) + sum(pair[1]["right"]))
    return Expected(half, 2 * sum_below(half))


@workload(8_000_000, "CombinePerKey, 10,000 keys")
def combine_perkey(pipeline: beam.Pipeline, elements: int, folder: Path) -> Expected:
    pairs = numbers(pipeline, elements) | beam.Map(
        lambda n: (n * _SPREAD % 10_000, n)
    ).with_output_types(tuple[int, int])
    end(pairs | beam.CombinePerKey(sum), value_of)
    return Expected(min(elements, 10_000), sum_below(elements))


class Remember(beam.DoFn):
    """DoFn that stores the values of a key in a bag, and emits their sum when the watermark passes."""

    BAG = userstate.BagStateSpec("bag", coders.VarIntCoder())
    COUNT = userstate.ReadModifyWriteStateSpec("count", coders.VarIntCoder())
    TIMER = userstate.TimerSpec("timer", TimeDomain.WATERMARK)

    def process(
        self,
        pair: tuple[int, int],
        bag: Any = beam.DoFn.StateParam(BAG),
        count: Any = beam.DoFn.StateParam(COUNT),
        timer: Any = beam.DoFn.TimerParam(TIMER),
    ) -> None:
        bag.add(pair[1])
        so_far = count.read() or 0
        count.write(so_far + 1)
        if not so_far:
            timer.set(100)

    @userstate.on_timer(TIMER)
    def sum_up(self, bag: Any = beam.DoFn.StateParam(BAG)) -> Iterator[int]:
        yield sum(bag.read())
        bag.clear()


@workload(150_000, "state and a timer, 100 elements per key")
def stateful(pipeline: beam.Pipeline, elements: int, folder: Path) -> Expected:
    keys = max(1, elements // 100)
    pairs = numbers(pipeline, elements) | beam.Map(
        lambda n: (n * _SPREAD % keys, n)
    ).with_output_types(tuple[int, int])
    end(pairs | beam.ParDo(Remember()).with_output_types(int), itself)
    return Expected(keys, sum_below(elements))


@workload(150_000, "CombinePerKey in sliding windows, three per element")
def win_slide(pipeline: beam.Pipeline, elements: int, folder: Path) -> Expected:
    pairs = numbers(pipeline, elements) | beam.Map(
        lambda n: TimestampedValue((n % 100, 1), n * 1200 / elements)
    ).with_output_types(tuple[int, int])
    windows = pairs | beam.WindowInto(window.SlidingWindows(60, 20))
    end(windows | beam.CombinePerKey(sum), value_of)
    return Expected(None, 3 * elements)


@workload(300_000, "CombinePerKey in sessions, five elements each")
def win_sess(pipeline: beam.Pipeline, elements: int, folder: Path) -> Expected:
    def burst(n: int) -> TimestampedValue:
        key, turn = n % 1000, n // 1000
        return TimestampedValue((key, 1), turn // 5 * 100 + turn % 5 * 2)

    pairs = numbers(pipeline, elements) | beam.Map(burst).with_output_types(tuple[int, int])
    end(pairs | beam.WindowInto(window.Sessions(10)) | beam.CombinePerKey(sum), value_of)
    return Expected(None, elements)


@workload(1_500_000, "look-up in a side input of 10,000 keys, as a dict")
def side_dict(pipeline: beam.Pipeline, elements: int, folder: Path) -> Expected:
    table = pipeline | beam.Create([(i, 1) for i in range(10_000)])
    found = numbers(pipeline, elements) | beam.Map(
        lambda n, table: table[n % 10_000], beam.pvalue.AsDict(table)
    ).with_output_types(int)
    end(found, itself)
    return Expected(elements, elements)


@workload(5_000_000, "a side input read through 50 times")
def side_iter(pipeline: beam.Pipeline, elements: int, folder: Path) -> Expected:
    size = elements // 50
    side = numbers(pipeline, size, "Side")
    sums = numbers(pipeline, 50) | beam.Map(
        lambda _, side: sum(side), beam.pvalue.AsIter(side)
    ).with_output_types(int)
    end(sums, itself)
    return Expected(50, 50 * sum_below(size))


@workload(2_000_000, "twenty Maps of one collection, flattened")
def fanout(pipeline: beam.Pipeline, elements: int, folder: Path) -> Expected:
    each = elements // 20
    source = numbers(pipeline, each)
    branches = [
        source | f"Branch {i}" >> beam.Map(lambda n, i=i: n + i).with_output_types(int)
        for i in range(20)
    ]
    end(branches | beam.Flatten(), itself)
    return Expected(20 * each, 20 * sum_below(each) + 190 * each)


@workload(100, "GroupByKeys in a row, ten elements")
def deep_gbk(pipeline: beam.Pipeline, elements: int, folder: Path) -> Expected:
    pairs = pipeline | beam.Create([(i, i) for i in range(10)])
    for i in range(elements):
        groups = pairs | f"Group {i}" >> beam.GroupByKey()
        pairs = groups | f"Ungroup {i}" >> beam.FlatMapTuple(
            lambda key, values: [(key, value) for value in values]
        ).with_output_types(tuple[int, int])
    end(pairs, value_of)
    return Expected(10, 45)


@workload(200, "steps of a TestStream, a pane each", streaming=True)
def test_stream(pipeline: beam.Pipeline, elements: int, folder: Path) -> Expected:
    steps = TestStream(coder=coders.VarIntCoder())
    for i in range(elements):
        steps = steps.add_elements([TimestampedValue(i, i)]).advance_watermark_to(i + 1)
    panes = (
        pipeline
        | steps.advance_watermark_to_infinity()
        # Prism passes elements to Python as bytes, regardless of their coder.
        | beam.Map(lambda _: (b"key", 1)).with_output_types(tuple[bytes, int])
        | beam.WindowInto(
            window.FixedWindows(10),
            trigger=trigger.AfterWatermark(early=trigger.AfterCount(1)),
            accumulation_mode=trigger.AccumulationMode.DISCARDING,
        )
        | beam.GroupByKey()
    )
    end(panes, size_of)
    return Expected(None, elements)


@workload(500, "impulses at 50 a second", streaming=True)
def periodic(pipeline: beam.Pipeline, elements: int, folder: Path) -> Expected:
    start = time.time() + 0.5
    impulses = pipeline | PeriodicImpulse(start, start + elements * 0.02 - 0.005, 0.02)
    late = impulses | beam.ParDo(Latency(folder, lambda _, at: at))
    end(late, lambda _: 1)
    return Expected(elements, elements)


@workload(1_000, "a source that polls, 50 a second, counted by key", streaming=True)
def polling(pipeline: beam.Pipeline, elements: int, folder: Path) -> Expected:
    counts = counted(pipeline, elements, PAUSE)
    warm = counts | beam.Filter(lambda number: number[0] >= WARM)
    _ = warm | beam.ParDo(Latency(folder, lambda number, _: number[1]))
    return end_of_counts(counts, elements)


@workload(200_000, "a source with a backlog, counted by key", streaming=True)
def keyed_count(pipeline: beam.Pipeline, elements: int, folder: Path) -> Expected:
    return end_of_counts(counted(pipeline, elements, 0.0), elements)


def end_of_counts(counts: beam.PCollection, elements: int) -> Expected:
    end(counts, lambda number: number[2])
    of_keys = (of_key(key, elements) for key in range(KEYS))
    return Expected(elements, sum(sum_below(count + 1) for count in of_keys))


def latencies(folder: Path) -> list[float]:
    """Returns the latencies that :class:`Latency` recorded, sorted, seconds."""
    path = folder / "latencies"
    if not os.path.exists(path):
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return sorted(seconds for line in lines for seconds in json.loads(line))
