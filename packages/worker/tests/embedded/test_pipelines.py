"""Whole pipelines, cut into stages by Beam and run stage by stage in the embedded harness."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms import window
from mini_runner import run, transforms_of


def test_map_and_flat_map() -> None:
    pipeline = beam.Pipeline()
    words = (
        pipeline
        | beam.Create(["a b", "c", ""])
        | beam.Reshuffle()
        | beam.FlatMap(str.split)
        | beam.Map(str.upper)
    )
    assert_that(words, equal_to(["A", "B", "C"]))
    run(pipeline)


class Split(beam.DoFn):
    def process(self, number: int) -> Iterable[Any]:
        yield number
        yield beam.pvalue.TaggedOutput("even" if number % 2 == 0 else "odd", number)


def test_multiple_outputs() -> None:
    pipeline = beam.Pipeline()
    outputs = pipeline | beam.Create(range(5)) | beam.ParDo(Split()).with_outputs(main="all")
    outputs2 = outputs["even"] | "e" >> beam.Reshuffle()
    assert_that(outputs["all"], equal_to([0, 1, 2, 3, 4]), "main")
    assert_that(outputs2, equal_to([0, 2, 4]), "even")
    assert_that(outputs["odd"], equal_to([1, 3]), "odd")
    run(pipeline)


def test_keys_of_all_kinds_are_grouped_by_their_encoding() -> None:
    keys = [None, 1, 1.0, True, "1", b"1", "ü", "日本", (1, "a"), (1.0, "a"), "", b"", -5]
    pipeline = beam.Pipeline()
    grouped = (
        pipeline
        | beam.Create([(key, i) for i in range(3) for key in keys])
        | beam.GroupByKey()
        | beam.MapTuple(lambda key, values: (type(key).__name__, key, sorted(values)))
    )
    assert_that(grouped, equal_to([(type(key).__name__, key, [0, 1, 2]) for key in keys]))
    run(pipeline)


class Thing:
    """Has an encoding which differs from pickle to pickle."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.salt = uuid.uuid4()


def test_objects_without_a_deterministic_encoding() -> None:
    pipeline = beam.Pipeline()
    numbers = (
        pipeline
        | beam.Create(range(10))
        | beam.Map(lambda i: (i % 3, Thing(i)))
        | beam.GroupByKey()
        | beam.MapTuple(lambda key, things: (key, sorted(thing.number for thing in things)))
    )
    assert_that(numbers, equal_to([(0, [0, 3, 6, 9]), (1, [1, 4, 7]), (2, [2, 5, 8])]))
    run(pipeline)


def test_co_group_by_key() -> None:
    pipeline = beam.Pipeline()
    left = pipeline | "l" >> beam.Create([("a", 1), ("b", 2)])
    right = pipeline | "r" >> beam.Create([("a", "x"), ("a", "y"), ("c", "z")])
    joined = (left, right) | beam.CoGroupByKey()
    joined |= beam.MapTuple(lambda k, v: (k, sorted(v[0]), sorted(v[1])))
    assert_that(joined, equal_to([("a", [1], ["x", "y"]), ("b", [2], []), ("c", [], ["z"])]))
    run(pipeline)


class Mean(beam.CombineFn):
    def create_accumulator(self) -> tuple[int, int]:
        return (0, 0)

    def add_input(self, accumulator: tuple[int, int], value: int) -> tuple[int, int]:
        return (accumulator[0] + value, accumulator[1] + 1)

    def merge_accumulators(self, accumulators: Iterable[tuple[int, int]]) -> tuple[int, int]:
        sums, counts = zip(*accumulators, strict=True)
        return (sum(sums), sum(counts))

    def extract_output(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1] if accumulator[1] else 0.0


def test_lifted_combines() -> None:
    pipeline = beam.Pipeline()
    pairs = pipeline | beam.Create([(i % 2, i) for i in range(10)]) | beam.Reshuffle()
    means = pairs | beam.CombinePerKey(Mean())
    total = pairs | beam.Values() | beam.CombineGlobally(sum)
    top = pairs | "v" >> beam.Values() | beam.combiners.Top.Largest(2)
    empty = pipeline | "none" >> beam.Create([]) | "g" >> beam.CombineGlobally(Mean())
    assert_that(means, equal_to([(0, 4.0), (1, 5.0)]), "means")
    assert_that(total, equal_to([45]), "total")
    assert_that(top, equal_to([[9, 8]]), "top")
    assert_that(empty, equal_to([0.0]), "empty")
    ran = run(pipeline)
    urns = {
        transform.spec.urn
        for stage in ran.plan.stages
        for transform in transforms_of(stage.spec.descriptor)
    }
    assert "beam:transform:combine_per_key_precombine:v1" in urns


def test_side_inputs_of_all_kinds() -> None:
    pipeline = beam.Pipeline()
    pairs = pipeline | "pairs" >> beam.Create([("a", 1), ("b", 2)])
    many = pipeline | "many" >> beam.Create([("a", 1), ("b", 2), ("a", 3), (1, "one"), (True, "t")])
    one = pipeline | "one" >> beam.Create([7])
    nothing = pipeline | "nothing" >> beam.Create([])
    main = pipeline | beam.Create(["a", "b"])
    views = {
        "one": beam.pvalue.AsSingleton(one),
        "default": beam.pvalue.AsSingleton(nothing, default_value="d"),
        "items": beam.pvalue.AsIter(pairs),
        "everything": beam.pvalue.AsList(pairs),
        "mapping": beam.pvalue.AsDict(pairs),
        "multi": beam.pvalue.AsMultiMap(many),
    }

    def look(element: str, one, default, items, everything, mapping, multi) -> Any:
        return (
            element,
            one,
            default,
            sorted(items),
            sorted(everything),
            mapping[element],
            sorted(multi[element]),
            list(multi["absent"]),
            list(multi[1]),
            list(multi[True]),
        )

    expected = [
        ("a", 7, "d", [("a", 1), ("b", 2)], [("a", 1), ("b", 2)], 1, [1, 3], [], ["one"], ["t"]),
        ("b", 7, "d", [("a", 1), ("b", 2)], [("a", 1), ("b", 2)], 2, [2], [], ["one"], ["t"]),
    ]
    assert_that(main | beam.Map(look, **views), equal_to(expected))
    run(pipeline)


def test_windowed_side_input() -> None:
    pipeline = beam.Pipeline()

    def stamped(label: str, values: list[int]) -> Any:
        return (
            pipeline
            | label >> beam.Create(values)
            | f"{label} time" >> beam.Map(lambda v: window.TimestampedValue(v, v))
            | f"{label} window" >> beam.WindowInto(window.FixedWindows(10))
        )

    side = stamped("side", [1, 2, 11, 25])
    main = stamped("main", [3, 12, 35])
    result = main | beam.Map(lambda v, s: (v, sorted(s)), beam.pvalue.AsList(side))
    assert_that(result, equal_to([(3, [1, 2]), (12, [11]), (35, [])]))
    run(pipeline)


def times(values: list[Any]) -> beam.PTransform:
    return beam.Create(values) | beam.MapTuple(lambda v, t: window.TimestampedValue(v, t))


class Show(beam.DoFn):
    def process(self, element, timestamp=beam.DoFn.TimestampParam, window=beam.DoFn.WindowParam):
        yield (element, float(timestamp), float(window.start), float(window.end))


def test_fixed_windows_and_times_before_the_epoch() -> None:
    pipeline = beam.Pipeline()
    shown = (
        pipeline
        | times([("a", -7.5), ("b", -10), ("c", 3), ("d", 12.25)])
        | beam.WindowInto(window.FixedWindows(10))
        | beam.Reshuffle()
        | beam.ParDo(Show())
        | "global" >> beam.WindowInto(window.GlobalWindows())
    )
    expected = [
        ("a", -7.5, -10, 0),
        ("b", -10, -10, 0),
        ("c", 3, 0, 10),
        ("d", 12.25, 10, 20),
    ]
    assert_that(shown, equal_to(expected))
    run(pipeline)


def test_sliding_windows_are_grouped_apart() -> None:
    pipeline = beam.Pipeline()
    shown = (
        pipeline
        | times([(("k", 1), 4), (("k", 2), 7)])
        | beam.WindowInto(window.SlidingWindows(10, 5))
        | beam.GroupByKey()
        | beam.MapTuple(lambda k, vs: sorted(vs))
        | beam.ParDo(Show())
        | "global" >> beam.WindowInto(window.GlobalWindows())
    )
    expected = [([1], 4.999999, -5, 5), ([1, 2], 9.999999, 0, 10), ([2], 14.999999, 5, 15)]
    rounded = shown | beam.Map(lambda s: (s[0], round(s[1], 3), s[2], s[3]))
    assert_that(rounded, equal_to([(v, round(t - 0.000999, 3), s, e) for v, t, s, e in expected]))
    run(pipeline)


def test_session_windows() -> None:
    pipeline = beam.Pipeline()
    shown = (
        pipeline
        | times([(("k", 1), 0), (("k", 2), 5), (("k", 3), 30), (("j", 4), 8)])
        | beam.WindowInto(window.Sessions(10))
        | beam.GroupByKey()
        | beam.MapTuple(lambda k, vs: (k, sorted(vs)))
        | beam.ParDo(Show())
        | "global" >> beam.WindowInto(window.GlobalWindows())
        | beam.Map(lambda s: (s[0], s[2], s[3]))
    )
    expected = [(("k", [1, 2]), 0, 15), (("k", [3]), 30, 40), (("j", [4]), 8, 18)]
    assert_that(shown, equal_to(expected))
    run(pipeline)


def test_combine_per_session() -> None:
    pipeline = beam.Pipeline()
    sums = (
        pipeline
        | times([(("k", 1), 0), (("k", 2), 5), (("k", 3), 30)])
        | beam.WindowInto(window.Sessions(10))
        | beam.CombinePerKey(sum)
        | "global" >> beam.WindowInto(window.GlobalWindows())
    )
    assert_that(sums, equal_to([("k", 3), ("k", 3)]))
    run(pipeline)


class Day(window.BoundedWindow):
    """A window type of the user's own, with a coder of its own."""

    def __init__(self, day: datetime.date) -> None:
        end = datetime.datetime.combine(day, datetime.time(), datetime.UTC).timestamp() + 86400
        super().__init__(end)
        self.day = day

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Day) and other.day == self.day

    def __hash__(self) -> int:
        return hash(self.day)


class DayCoder(beam.coders.Coder):
    """Takes what is left of the bytes, so nested encodings differ from others."""

    def encode(self, value: Day) -> bytes:
        return value.day.isoformat().encode()

    def decode(self, encoded: bytes) -> Day:
        return Day(datetime.date.fromisoformat(encoded.decode()))

    def is_deterministic(self) -> bool:
        return True


class Days(window.NonMergingWindowFn):
    def assign(self, context: window.WindowFn.AssignContext) -> list[Day]:
        stamp = datetime.datetime.fromtimestamp(float(context.timestamp), datetime.UTC)
        return [Day(stamp.date())]

    def get_window_coder(self) -> Any:
        return DayCoder()


def test_windows_of_a_type_of_the_users_own() -> None:
    pipeline = beam.Pipeline()
    day = 86400
    grouped = (
        pipeline
        | times([(("k", 1), 10), (("k", 2), 20), (("k", 3), day + 1)])
        | beam.WindowInto(Days())
        | beam.GroupByKey()
        | beam.MapTuple(lambda k, vs: sorted(vs))
    )
    sides = grouped | beam.FlatMap(lambda vs: vs)
    looked = grouped | "look" >> beam.Map(lambda vs, s: (vs, sorted(s)), beam.pvalue.AsIter(sides))
    looked |= "global" >> beam.WindowInto(window.GlobalWindows())
    assert_that(looked, equal_to([([1, 2], [1, 2]), ([3], [3])]))
    run(pipeline)


def test_reads_files_through_a_splittable_dofn(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text("".join(f"{number} {i}\n" for i in range(50)))
    pipeline = beam.Pipeline()
    count = (
        pipeline
        | beam.io.ReadFromText(str(tmp_path / "*.txt"))
        | beam.Map(lambda line: (line.split()[0], 1))
        | beam.CombinePerKey(sum)
    )
    assert_that(count, equal_to([("0", 50), ("1", 50), ("2", 50)]))
    run(pipeline)


def test_large_groups_are_lazy_and_can_be_read_twice() -> None:
    pipeline = beam.Pipeline()
    seen = (
        pipeline
        | beam.Create([("k", "v" * 1000 + str(i)) for i in range(500)])
        | beam.GroupByKey()
        | beam.MapTuple(
            lambda k, vs: (type(vs).__name__, len(list(vs)), len(set(vs)), sum(map(len, vs)))
        )
    )
    assert_that(seen, equal_to([("LazyValues", 500, 500, 500_000 + 10 + 180 + 1200)]))
    run(pipeline)


def test_large_groups_go_through_coders_again() -> None:
    pipeline = beam.Pipeline()
    seen = (
        pipeline
        | beam.Create([("k", "v" * 1000 + str(i)) for i in range(500)])
        | beam.GroupByKey()
        | beam.Reshuffle()
        | beam.MapTuple(lambda k, vs: (k, len(list(vs))))
    )
    assert_that(seen, equal_to([("k", 500)]))
    run(pipeline)


def test_flatten_of_different_coders() -> None:
    pipeline = beam.Pipeline()
    numbers = pipeline | "n" >> beam.Create([1, 2])
    words = pipeline | "w" >> beam.Create(["a"])
    assert_that((numbers, words) | beam.Flatten() | beam.Reshuffle(), equal_to([1, 2, "a"]))
    run(pipeline)
