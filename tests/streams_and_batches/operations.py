"""Operations of random pipelines as transforms of Beam."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import apache_beam as beam
import attrs
from apache_beam import pvalue
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue
from folds import FOLDS
from partitions import Partition, Play, elements
from span_windows import GLOBAL, SAFE, Windows, window_into
from unfolding import Unfold
from values_of_elements import pair_of


@attrs.frozen
class Stream:
    """A PCollection of pairs while a pipeline is built.

    Attributes:
        pc: Beam's PCollection.
        label: first part of the names of transforms.
        windows: windowing strategy.
        grouped: whether the elements are results of a grouping in these windows. Windows that
            have merged must not merge again: which do depends on the time at which they close.
        inside: whether the timestamps lie in the windows.
    """

    pc: Any
    label: str
    windows: Windows = Windows()  # noqa: RUF009 - it is frozen
    grouped: bool = False
    inside: bool = True

    @property
    def ended(self) -> bool:
        """Whether the elements come at the end of the global window."""
        return self.windows.fn == GLOBAL and not self.inside

    def apply(self, name: str, transform: beam.PTransform) -> Stream:
        """Returns the output of a transform."""
        return attrs.evolve(self, pc=self.pc | f"{self.label}/{name}" >> transform)

    def in_windows(self, windows: Windows, name: str = "Windows") -> Stream:
        """Returns the elements in other windows."""
        made = self.apply(name, window_into(windows))
        return attrs.evolve(made, windows=windows, grouped=False, inside=True)

    def pairs(self, name: str = "Pairs") -> Stream:
        """Returns pairs of a text and a number."""
        return self.apply(name, beam.Map(pair_of).with_output_types(tuple[str, int]))

    def groupable(self) -> Stream:
        """Returns pairs in windows in which they can be grouped."""
        made = self.pairs()
        merged = self.windows.merge and self.grouped
        if merged or (self.windows.combiner != "end" and not self.inside):
            return made.in_windows(SAFE, "Safe")
        return made

    def as_grouped(self) -> Stream:
        """Returns the same elements, known to be the results of a grouping."""
        return attrs.evolve(self, grouped=True, inside=self.windows.has_times)

    def can_fan_out(self) -> bool:
        """Returns whether hot keys can be spread. Beam assigns windows by the timestamps again."""
        return self.inside and not self.windows.merge

    def restamped(self) -> Stream:
        """Returns the elements at the end of their windows.

        The timestamps of a timer's output depend on the order of arrival, or on the clock.
        """
        if self.windows.fn == GLOBAL:
            return attrs.evolve(self, inside=False)
        return attrs.evolve(self.apply("Restamp", beam.ParDo(Restamp())), inside=False)

    def in_intervals(self, inside: bool = False) -> Stream:
        """Returns pairs in windows that don't merge and have a start; if wanted, with timestamps in them."""
        made = self.pairs()
        if self.windows.merge or self.windows.fn == GLOBAL or (inside and not self.inside):
            return made.in_windows(SAFE, "Safe")
        return made


class Restamp(beam.DoFn):
    """Moves elements to the end of their window."""

    def process(self, element: Any, window: Any = beam.DoFn.WindowParam) -> Iterator[WindowedValue]:
        # Beam would assign a TimestampedValue to all windows of its new timestamp.
        yield WindowedValue(element, window.end, [window])


def source(root: Any, label: str, as_batch: bool, partitions: tuple[Partition, ...]) -> Stream:
    """Returns an unbounded source; as a batch, the same elements."""
    if as_batch:
        return bounded(root, label, as_batch, partitions)
    made = root | f"{label}/Partitions" >> beam.Create([*partitions], reshuffle=False)
    return Stream(made | f"{label}/Play" >> beam.ParDo(Play()), label)


def bounded(root: Any, label: str, as_batch: bool, partitions: tuple[Partition, ...]) -> Stream:
    """Returns the elements of partitions as a bounded source."""
    found = [action[1:] for partition in partitions for action in elements(partition)]
    pairs = root | f"{label}/Elements" >> beam.Create(found)
    return Stream(pairs | f"{label}/Stamped" >> beam.MapTuple(_stamped), label)


def flatten(*streams: Stream) -> Stream:
    """Returns the elements of all inputs; if their windows differ, in the global window."""
    first, *others = streams
    if all(each.windows == first.windows for each in others):
        pc = tuple(each.pc for each in streams) | f"{first.label}/Flatten" >> beam.Flatten()
        grouped = any(each.grouped for each in streams)
        return attrs.evolve(
            first, pc=pc, grouped=grouped, inside=all(each.inside for each in streams)
        )
    whole = [each.in_windows(Windows(), f"Global{n}").pc for n, each in enumerate(streams)]
    return Stream(tuple(whole) | f"{first.label}/Flatten" >> beam.Flatten(), first.label)


def window(stream: Stream, fn: tuple[Any, ...], combiner: str) -> Stream:
    """Returns the elements in windows."""
    return stream.pairs().in_windows(Windows(fn, combiner))


def rekey(stream: Stream, keys: int) -> Stream:
    """Returns the elements with other keys."""
    return stream.pairs().apply(
        "Rekey", beam.Map(_rekeyed, keys).with_output_types(tuple[str, int])
    )


def shift(stream: Stream, by: int, fn: tuple[Any, ...], combiner: str) -> Stream:
    """Returns the elements with later timestamps, in windows."""
    shifted = stream.pairs().in_windows(Windows(), "Whole").apply("Shift", beam.ParDo(Shift(by)))
    return shifted.pairs("Shifted").in_windows(Windows(fn, combiner))


class Shift(beam.DoFn):
    """Moves elements to later times by their values."""

    def __init__(self, by: int) -> None:
        self._by = by

    def process(
        self, element: tuple[str, int], time: Any = beam.DoFn.TimestampParam
    ) -> Iterator[TimestampedValue]:
        yield TimestampedValue(
            element, Timestamp(micros=time.micros + 1000 * self._by * (element[1] % 3))
        )


def unfold(stream: Stream, by: int, fn: tuple[Any, ...], combiner: str) -> Stream:
    """Returns up to three elements for each, at later and later timestamps, in windows."""
    whole = stream.pairs().in_windows(Windows(), "Whole")
    unfolded = whole.apply("Unfold", beam.ParDo(Unfold(by)))
    return unfolded.pairs("Unfolded").in_windows(Windows(fn, combiner))


def tags(stream: Stream, take: str) -> Stream:
    """Returns one of three outputs of a DoFn."""
    pairs = stream.pairs()
    outputs: Any = beam.ParDo(Deal()).with_outputs("odd", "both", main="even")
    dealt = pairs.pc | f"{pairs.label}/Deal" >> outputs
    return attrs.evolve(pairs, pc=dealt[take])


class Deal(beam.DoFn):
    """Deals elements to outputs by their values; ``both`` has all of them."""

    def process(self, element: tuple[str, int]) -> Iterator[Any]:
        if element[1] % 2:
            yield pvalue.TaggedOutput("odd", element)
        else:
            yield element
        yield pvalue.TaggedOutput("both", element)


def reshuffle(stream: Stream) -> Stream:
    """Returns the elements behind a shuffle."""
    return stream.pairs().apply("Reshuffle", beam.Reshuffle())


def first_of(*streams: Stream) -> Stream:
    """Returns the first input through a composite that has several inputs and no parts."""
    pc = tuple(each.pc for each in streams) | f"{streams[0].label}/FirstOf" >> FirstOf()
    return attrs.evolve(streams[0], pc=pc)


class FirstOf(beam.PTransform):
    """Returns the first of several inputs."""

    def expand(self, pcs: tuple[Any, ...]) -> Any:
        return pcs[0]


def group(stream: Stream) -> Stream:
    """Returns the sorted values of each key and window."""
    grouped = stream.groupable().apply("Group", beam.GroupByKey())
    sorted_values = grouped.apply("Sort", beam.MapTuple(_sorted))
    return sorted_values.as_grouped()


def combine(stream: Stream, fold: str, way: str) -> Stream:
    """Returns the combined values of each key and window.

    Args:
        way: ``plain`` can be lifted; ``values`` combines after a grouping; ``fanout`` spreads hot keys.
    """
    pairs, made = stream.groupable(), FOLDS[fold][0]
    if way == "values":
        combined = pairs.apply("Group", beam.GroupByKey())
        combined = combined.apply("Values", beam.CombineValues(made()))
    else:
        transform = beam.CombinePerKey(made())
        if way == "fanout" and pairs.can_fan_out():
            transform = transform.with_hot_key_fanout(2)
        combined = pairs.apply("Combine", transform)
    return combined.as_grouped()


def globally(stream: Stream, fold: str, way: str) -> Stream:
    """Returns the combined values of each window; ``way`` is ``plain`` or ``fanout``."""
    numbers = stream.groupable().apply("Numbers", beam.Map(_second).with_output_types(int))
    transform = beam.CombineGlobally(FOLDS[fold][0]()).without_defaults()
    if way == "fanout" and numbers.can_fan_out():
        transform = transform.with_fanout(2)
    combined = numbers.apply("Combine", transform).apply("Key", beam.Map(_keyed))
    return combined.as_grouped()


def distinct(stream: Stream, modulus: int) -> Stream:
    """Returns the distinct values of each key and window."""
    few = beam.Map(_few, modulus).with_output_types(tuple[str, int])
    made = stream.groupable().apply("Few", few)
    return made.apply("Distinct", beam.Distinct()).as_grouped()


def join(first: Stream, second: Stream, fn: tuple[Any, ...], combiner: str) -> Stream:
    """Returns the sorted values of each key and window of two inputs."""
    windows = Windows(fn, combiner)
    both = [
        each.pairs(name).in_windows(windows, f"{name}Windows")
        for name, each in (("First", first), ("Second", second))
    ]
    joined = tuple(each.pc for each in both) | f"{first.label}/Join" >> beam.CoGroupByKey()
    made = attrs.evolve(both[0], pc=joined).apply("Sort", beam.MapTuple(_both_sorted))
    return made.as_grouped()


def batches(stream: Stream, size: int, seconds: float | None) -> Stream:
    """Returns the values of batches, one by one. A batch that is too large is a separate element."""
    batched = stream.in_intervals().apply("Batches", beam.GroupIntoBatches(size, seconds))
    made = batched.apply("Flat", beam.FlatMap(_unbatched, size))
    return attrs.evolve(made, grouped=False).restamped()


def side(
    main: Stream, beside: Stream, fn: tuple[Any, ...], side_fn: tuple[Any, ...], view: str
) -> Stream:
    """Returns the elements of one input with the values of the other input's window."""
    first = main.pairs("First").in_windows(Windows(fn), "FirstWindows")
    second = beside.pairs("Second").in_windows(Windows(side_fn), "SecondWindows")
    match view:
        case "iter":
            values = pvalue.AsIter(second.apply("Values", beam.Map(_second)).pc)
        case "list":
            values = pvalue.AsList(second.apply("Values", beam.Map(_second)).pc)
        case "dict":
            summed = second.apply("Sum", beam.CombinePerKey(sum))
            values = pvalue.AsDict(summed.pc)
        case "singleton":
            numbers = second.apply("Values", beam.Map(_second).with_output_types(int))
            total = (
                numbers.pc
                | f"{numbers.label}/Total" >> beam.CombineGlobally(sum).without_defaults()
            )
            values = pvalue.AsSingleton(total, default_value=-1)
    return first.apply("Beside", beam.Map(_beside, values))


OPERATIONS: dict[str, Callable[..., Stream]] = {
    name: function
    for name, function in globals().items()
    if name
    in (
        *("source", "bounded", "flatten", "window", "rekey", "shift", "unfold", "tags"),
        *(
            "reshuffle",
            "first_of",
            "group",
            "combine",
            "globally",
            "distinct",
            "join",
            "batches",
            "side",
        ),
    )
}


def _stamped(key: str, value: int, time: int) -> TimestampedValue:
    return TimestampedValue((key, value), Timestamp(micros=1000 * time))


def _rekeyed(element: tuple[str, int], keys: int) -> tuple[str, int]:
    return f"r{element[1] % keys}", element[1]


def _few(element: tuple[str, int], modulus: int) -> tuple[str, int]:
    return element[0], element[1] % modulus


def _second(element: tuple[str, int]) -> int:
    return element[1]


def _keyed(value: Any) -> tuple[str, Any]:
    return "all", value


def _sorted(key: str, values: Iterable[int]) -> tuple[str, Any]:
    return key, tuple(sorted(values))


def _both_sorted(key: str, both: Any) -> tuple[str, Any]:
    return key, tuple(tuple(sorted(values)) for values in both)


def _unbatched(element: tuple[str, Iterable[int]], size: int) -> Iterator[tuple[str, Any]]:
    key, batch = element[0], list(element[1])
    if not 0 < len(batch) <= size:
        yield key, f"batch of {len(batch)}"
    yield from ((key, value) for value in batch)


def _beside(element: tuple[str, int], values: Any) -> tuple[str, Any]:
    key, value = element
    match values:
        case int():
            return key, (value, values)
        case dict():
            return key, (value, tuple(sorted(values.items())))
    return key, (value, tuple(sorted(values)))
