"""Tests that ParDos with side inputs process runs with the results of single elements."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterator
from typing import Any
from unittest import mock

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.internal import pickler
from apache_beam.internal.util import ArgumentPlaceholder
from apache_beam.pvalue import AsDict, AsIter, AsList, AsMultiMap, AsSingleton
from apache_beam.runners.worker import operations
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms import window
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import BagStateSpec, TimerSpec
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils import windowed_value
from apache_beam.utils.windowed_value import PaneInfo, WindowedValue
from beam_runner_worker.errors import BundleError
from hypothesis import given, settings
from hypothesis import strategies as st
from mini_runner import MiniRunner, run
from noting import SEEN, Note

from beam_runner_embedded import run_operations
from beam_runner_embedded.plain_dofns import ProcessMethod, _requests_parameter

HOURS = window.FixedWindows(3600)

window_fns = st.one_of(
    st.builds(window.GlobalWindows),
    st.builds(window.FixedWindows, st.sampled_from([10, 20])),
    st.builds(window.SlidingWindows, st.just(20), st.just(10)),
)
times = st.lists(st.integers(-30, 30), min_size=1, max_size=3)
views = st.sampled_from([AsIter, AsList, AsDict, AsMultiMap])


def at_times(pipeline: beam.Pipeline, label: str, times: list[int], window_fn: Any) -> Any:
    """Returns elements in runs with one timestamp each."""
    return (
        pipeline
        | f"{label} times" >> beam.Create(times)
        | label >> beam.FlatMap(lambda t: [TimestampedValue((t, i), t) for i in range(100)])
        | f"{label} windows" >> beam.WindowInto(window_fn)
    )


def look(pair: tuple[int, int], *views: Any, **more: Any) -> Iterator[Any]:
    time, number = pair
    sizes = tuple(len(list(view)) for view in (*views, *more.values()) if isinstance(view, list))
    sums = tuple(sum(view.values()) for view in (*views, *more.values()) if isinstance(view, dict))
    match number % 4:
        case 0:
            yield number, sizes, sums
        case 1:
            yield TimestampedValue((number, sizes, sums), time + number)
        case 2:
            yield beam.pvalue.TaggedOutput("other", (number, sizes, sums))
            yield number


def noted(build: Any) -> collections.Counter[Any]:
    SEEN.clear()
    pipeline = beam.Pipeline()
    build(pipeline)
    MiniRunner(pipeline).run()
    return collections.Counter(map(repr, SEEN))


@settings(max_examples=10)
@given(window_fns, window_fns, times, times, views, views)
def test_element_in_each_window_gets_side_input_of_that_window(
    main_fn: Any, side_fn: Any, main_times: Any, side_times: Any, first: Any, second: Any
) -> None:
    def build(pipeline: beam.Pipeline) -> None:
        main = at_times(pipeline, "main", main_times, main_fn)
        side = at_times(pipeline, "side", sorted(set(side_times)), side_fn)
        ones = side | "ones" >> beam.MapTuple(lambda time, number: (number, number + time))
        outputs = main | beam.FlatMap(look, 3, first(ones), last=second(ones)).with_outputs(
            "other", main="main"
        )
        outputs.main | "note" >> beam.ParDo(Note())
        outputs.other | "note others" >> beam.ParDo(Note())

    in_runs = noted(build)
    with mock.patch.object(run_operations, "ElementRunParDo", operations.DoOperation):
        one_by_one = noted(build)
    assert in_runs == one_by_one


def note_look(pair: tuple[int, int], ones: Any) -> Any:
    SEEN.append("look")
    return pair


def note_defaults(pair: tuple[int, int], ones: Any, two: int = 2, kind: int = 1) -> Any:
    SEEN.append(("look", len(list(ones)), two, kind))
    return pair


def note_after(pair: tuple[int, int]) -> None:
    SEEN.append("after")


def test_elements_with_side_inputs_are_processed_in_batches() -> None:
    def build(pipeline: beam.Pipeline) -> None:
        side = at_times(pipeline, "side", [0], window.FixedWindows(10))
        main = at_times(pipeline, "main", [0], window.FixedWindows(20))
        main | "look" >> beam.Map(note_look, AsIter(side)) | "after" >> beam.Map(note_after)

    assert noted(build) == {"'look'": 100, "'after'": 100}
    assert came_in_runs()


def came_in_runs() -> bool:
    changes = sum(one != other for one, other in itertools.pairwise(SEEN))
    return changes < 100


def test_custom_default_parameters_do_not_disable_batches() -> None:
    def build(pipeline: beam.Pipeline) -> None:
        main = at_times(pipeline, "main", [0], window.GlobalWindows())
        side = at_times(pipeline, "side", [0], window.GlobalWindows())
        looked = main | "look" >> beam.Map(note_defaults, AsIter(side), kind=3)
        looked | "after" >> beam.Map(note_after)

    assert noted(build) == {"('look', 100, 2, 3)": 100, "'after'": 100}
    assert came_in_runs()


class LookAround(beam.DoFn):
    """A DoFn that yields its side input and the header of its element."""

    def process(
        self,
        pair: tuple[int, int],
        ones: Any,
        within: Any = beam.DoFn.WindowParam,
        time: Any = beam.DoFn.TimestampParam,
        pane: Any = beam.DoFn.PaneInfoParam,
        factor: int = 2,
    ) -> Iterator[Any]:
        yield pair, len(list(ones)), within, time, pane, factor


def look_around(pair: tuple[int, int], time: Any = beam.DoFn.TimestampParam, more: Any = 1) -> Any:
    return pair, time, more


@settings(max_examples=5)
@given(window_fns, window_fns, times)
def test_parameters_of_header_have_values_of_single_elements(
    main_fn: Any, side_fn: Any, main_times: Any
) -> None:
    def build(pipeline: beam.Pipeline) -> None:
        main = at_times(pipeline, "main", main_times, main_fn)
        ones = AsIter(at_times(pipeline, "side", [0], side_fn))
        found = (
            main | "default" >> beam.ParDo(LookAround(), ones),
            main | "factor" >> beam.ParDo(LookAround(), ones, factor=3),
            main | "by position" >> beam.ParDo(LookAround(), ones, 4),
            main | "map" >> beam.Map(look_around),
            main | "map by position" >> beam.Map(look_around, 5),
        )
        found | beam.Flatten() | "note" >> beam.ParDo(Note())

    in_runs = noted(build)
    with mock.patch.object(run_operations, "ElementRunParDo", operations.DoOperation):
        one_by_one = noted(build)
    assert in_runs == one_by_one


class NoteTime(beam.DoFn):
    """A DoFn that notes its call, and needs the time of its element."""

    def process(self, pair: Any, time: Any = beam.DoFn.TimestampParam) -> Iterator[Any]:
        SEEN.append("look")
        yield pair


def test_elements_of_dofn_with_header_parameters_are_processed_in_batches() -> None:
    def build(pipeline: beam.Pipeline) -> None:
        main = at_times(pipeline, "main", [0], window.FixedWindows(20))
        main | "look" >> beam.ParDo(NoteTime()) | "after" >> beam.Map(note_after)

    assert noted(build) == {"'look'": 100, "'after'": 100}
    assert came_in_runs()


@pytest.mark.parametrize(
    ("default", "asks"),
    [
        (None, False),
        (3, False),
        (int, False),
        (beam.DoFn.TimestampParam, True),
        (beam.DoFn.SideInputParam, True),
        (beam.DoFn.BundleFinalizerParam, True),
        (beam.DoFn.WatermarkEstimatorParam, True),
        (beam.DoFn.WatermarkEstimatorParam(), True),
        (beam.DoFn.RestrictionParam(), True),
        (beam.DoFn.StateParam(BagStateSpec("bag", VarIntCoder())), True),
        (beam.DoFn.TimerParam(TimerSpec("timer", TimeDomain.WATERMARK)), True),
        (beam.DoFn.BundleContextParam(open), True),
    ],
)
def test_default_parameters_get_requested_values(default: Any, asks: bool) -> None:
    assert _requests_parameter(default) is asks


@pytest.mark.parametrize(("side_fn", "times"), [(window.GlobalWindows(), 1), (HOURS, 2)])
def test_element_in_several_windows_is_processed_once_with_global_side_inputs(
    side_fn: Any, times: int
) -> None:
    def build(pipeline: beam.Pipeline) -> None:
        side = at_times(pipeline, "side", [0], side_fn)
        main = at_times(pipeline, "main", [0], window.SlidingWindows(20, 10))
        main | "look" >> beam.Map(note_look, AsIter(side))

    assert noted(build) == {"'look'": 100 * times}


def test_element_in_several_windows_is_processed_per_window_as_by_beam() -> None:
    windows = tuple(window.IntervalWindow(start, start + 20) for start in (0, 10))
    element = windowed_value.create("value", 15_000_000, windows, PaneInfo(True, True, 0, 0, 0))
    side_input = mock.MagicMock()
    side_input.is_globally_windowed.return_value = False
    process = ProcessMethod(lambda value, seen: [value], [ArgumentPlaceholder()], {}, [side_input])
    assert process.split_by_window(element) == [
        WindowedValue("value", element.timestamp, (each,)) for each in windows
    ]


@pytest.mark.parametrize("function", [lambda n, one: n, lambda n, one=None: n])
def test_side_input_that_cannot_be_built_fails_its_transform(function: Any) -> None:
    pipeline = beam.Pipeline()
    many = pipeline | "side" >> beam.Create([1, 2])
    numbers = pipeline | beam.Create([None]) | "numbers" >> beam.FlatMap(lambda _: range(100))
    numbers | "Bad" >> beam.Map(function, AsSingleton(many)) | "After" >> beam.Map(lambda n: n)
    with pytest.raises(BundleError, match="more than one element") as failed:
        MiniRunner(pipeline).run()
    assert failed.value.transform == "Bad"


class Sums(beam.DoFn):
    """A DoFn that reads its side input lazily, when its results are consumed."""

    def process(self, number: int, numbers: Any, factor: int = 1) -> Iterator[int]:
        yield factor * (number + sum(numbers))


def pair_up(number: int, other: Any) -> Any:
    return number, other


@pytest.mark.parametrize(
    ("made", "args", "kwargs"),
    [
        (beam.Map(lambda value: (value, None)), [], {}),
        (beam.Map(pair_up, 1), [1], {}),
        (beam.Map(pair_up, other=1), [], {"other": 1}),
        (beam.Map(lambda value, *more: (value, more), 1, 2), [1, 2], {}),
    ],
)
def test_map_is_called_without_beam_wrapper(made: Any, args: Any, kwargs: Any) -> None:
    wrapper = pickler.loads(pickler.dumps(made.fn)).process
    anything = windowed_value.create(None, 0, ())
    process = ProcessMethod(wrapper, args, kwargs, [])
    assert process.maps
    results = [result for value in (5, 6) for result in wrapper(value, *args, **kwargs)]
    assert process.make_value_function(anything)([5, 6]) == results


def test_dofn_that_resembles_map_is_called_through_beam_wrapper() -> None:
    for other in (beam.FlatMap(pair_up, 1), beam.Filter(pair_up, 1), beam.MapTuple(pair_up)):
        assert not ProcessMethod(other.fn.process, [], {}, []).maps


def test_stop_iteration_in_map_fails_its_element() -> None:
    def first_but_of_150(number: int) -> int:
        return next(iter([number] if number != 150 else []))

    pipeline = beam.Pipeline()
    numbers = pipeline | beam.Create([None]) | beam.FlatMap(lambda _: list(range(200)))
    _ = numbers | "First" >> beam.Map(first_but_of_150) | "After" >> beam.Map(lambda n: n)
    with pytest.raises(BundleError, match="StopIteration") as failed:
        MiniRunner(pipeline).run()
    assert (failed.value.transform, failed.value.element) == ("First", "150")


def test_generators_and_default_parameters_get_side_inputs() -> None:
    pipeline = beam.Pipeline()
    side = pipeline | "side" >> beam.Create([1, 2])
    ten = pipeline | "ten" >> beam.Create([10])
    numbers = pipeline | beam.Create([None]) | "numbers" >> beam.FlatMap(lambda _: range(100))
    pairs = numbers | "pairs" >> beam.Map(pair_up, AsSingleton(ten))
    once = numbers | "once" >> beam.ParDo(Sums(), AsIter(side))
    often = numbers | "often" >> beam.ParDo(Sums(), AsIter(side), factor=AsSingleton(ten))
    assert_that(pairs, equal_to([(number, 10) for number in range(100)]), "pairs")
    assert_that(once, equal_to([number + 3 for number in range(100)]), "once")
    assert_that(often, equal_to([10 * number + 30 for number in range(100)]), "often")
    run(pipeline)
