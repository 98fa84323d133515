"""Tests of features that Python's SDK can't request, so the tests add them to the pipeline's proto."""

from __future__ import annotations

import itertools
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import StrUtf8Coder, VarIntCoder
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.portable_runner import PortableRunner
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms import userstate
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from beam_runner_urns import requirements, transforms
from jobs import Pipelines, timestamped

Pair = tuple[str, int]
Payload = beam_runner_api_pb2.ParDoPayload


class Amended(PortableRunner):
    """Runner that adds requests to a ParDo that the SDK can't express.

    Args:
        name: last part of the full name of the ParDo.
        amend: function that changes the payload.
        requirement: requirement that the runner must support.
    """

    def __init__(self, name: str, amend: Callable[[Payload], None], requirement: str) -> None:
        super().__init__()
        self._name, self._amend, self._requirement = name, amend, requirement

    def run_portable_pipeline(self, pipeline: Any, options: Any) -> Any:
        (transform,) = (
            t
            for t in pipeline.components.transforms.values()
            if t.spec.urn == transforms.PAR_DO and t.unique_name.endswith(self._name)
        )
        payload = Payload.FromString(transform.spec.payload)
        self._amend(payload)
        transform.spec.payload = payload.SerializeToString()
        pipeline.requirements.append(self._requirement)
        return super().run_portable_pipeline(pipeline, options)


class Rest(beam.DoFn):
    """DoFn that buffers values of a key and window, and emits their sum when the window expires."""

    BAG = userstate.BagStateSpec("bag", VarIntCoder())
    EXPIRY = userstate.TimerSpec("expiry", TimeDomain.WATERMARK)

    def process(
        self,
        pair: Pair,
        bag: Any = beam.DoFn.StateParam(BAG),
        expiry: Any = beam.DoFn.TimerParam(EXPIRY),  # the SDK declares the timer family
    ) -> None:
        bag.add(pair[1])

    @userstate.on_timer(EXPIRY)
    def on_expiry(
        self,
        key: Any = beam.DoFn.KeyParam,
        window: Any = beam.DoFn.WindowParam,
        bag: Any = beam.DoFn.StateParam(BAG),
    ) -> Iterator[tuple[str, int, int]]:
        yield key, sum(bag.read()), int(window.end)


@pytest.mark.parametrize("stream", [False, True], ids=["bounded", "stream"])
def test_window_expiry_callback_runs_once_for_each_key_and_window(
    pipelines: Pipelines, stream: bool
) -> None:
    """No code sets the timer; it fires once for each key and window with an element."""

    def expires(payload: Payload) -> None:
        (payload.on_window_expiration_timer_family_spec,) = payload.timer_family_specs

    pairs = [(("a", 1), 1), (("b", 10), 2), (("a", 2), 3), (("a", 4), 11)]
    script = Stream().add_elements([TimestampedValue(*pair) for pair in pairs])
    source = script.advance_watermark_to_infinity() if stream else timestamped(pairs, Pair)
    runner = Amended("Rest", expires, requirements.REQUIRES_ON_WINDOW_EXPIRATION)
    with pipelines.new(*["--streaming"] * stream, runner=runner) as p:
        rests = p | source | beam.WindowInto(FixedWindows(10)) | "Rest" >> beam.ParDo(Rest())
        assert_that(rests, equal_to([("a", 3, 10), ("b", 10, 10), ("a", 4, 20)]))


class Previous(beam.DoFn):
    """Stateful DoFn that emits each value of a key with the previous value."""

    LAST = userstate.ReadModifyWriteStateSpec("last", VarIntCoder())

    def process(
        self, pair: Pair, last: Any = beam.DoFn.StateParam(LAST)
    ) -> Iterator[tuple[str, int, int]]:
        yield pair[0], last.read() or 0, pair[1]
        last.write(pair[1])


@pytest.mark.parametrize("stream", [False, True], ids=["bounded", "stream"])
def test_time_sorted_input_is_delivered_in_timestamp_order(
    pipelines: Pipelines, stream: bool
) -> None:
    def sort(payload: Payload) -> None:
        payload.requires_time_sorted_input = True

    times = [5, 3, 9, 1, 7]
    pairs = [((key, time), time) for time in times for key in "ab"]
    script = Stream()
    for pair in pairs:
        script = script.add_elements([TimestampedValue(*pair)])
    source = script.advance_watermark_to_infinity() if stream else timestamped(pairs, Pair)
    runner = Amended("Previous", sort, requirements.REQUIRES_TIME_SORTED_INPUT)
    with pipelines.new(*["--streaming"] * stream, runner=runner) as p:
        seen = p | source | "Previous" >> beam.ParDo(Previous())
        in_order = [0, *sorted(times)]
        pairs_in_order = list(itertools.pairwise(in_order))
        assert_that(seen, equal_to([(key, *two) for key in "ab" for two in pairs_in_order]))


def test_stable_input_is_identical_on_retry(embedded: Pipelines, tmp_path: Path) -> None:
    """The process is killed after it reported its input; the next process gets the same input."""
    told = tmp_path / "told"

    def stable(payload: Payload) -> None:
        payload.requires_stable_input = True

    def tell(value: str) -> None:
        with told.open("a") as file:
            file.write(f"{value}\n")
        if len(told.read_text().splitlines()) == 1:
            os._exit(1)

    runner = Amended("Tell", stable, requirements.REQUIRES_STABLE_INPUT)
    with embedded.new(runner=runner) as p:
        p | beam.Create([1]) | beam.Map(lambda _: uuid.uuid4().hex) | "Tell" >> beam.Map(tell)
    first, second = told.read_text().splitlines()
    assert first == second


class InOrder(beam.DoFn):
    """DoFn that stores names by time, out of order, and emits a part and then the rest of them in order."""

    NAMES = userstate.OrderedListStateSpec("names", StrUtf8Coder())

    def process(
        self, pair: tuple[str, tuple[str, int]], names: Any = beam.DoFn.StateParam(NAMES)
    ) -> Iterator[tuple[str, list[str]]]:
        key, (name, time) = pair
        if name != "end":
            names.add((Timestamp(time), name))
            return
        yield f"{key}: some", [name for _, name in names.read_range(Timestamp(2), Timestamp(4))]
        names.clear_range(Timestamp(2), Timestamp(4))
        yield f"{key}: rest", [name for _, name in names.read()]


def test_ordered_list_state_persists_between_bundles(everywhere: Pipelines) -> None:
    script = Stream()
    for name, time in (("d", 4), ("b", 2), ("a", 1), ("c", 3), ("end", 9)):
        script = script.add_elements([("k", (name, time)), ("l", (name, time))])
    with everywhere.new("--streaming") as p:
        told = p | script.advance_watermark_to_infinity() | beam.ParDo(InOrder())
        expected = [
            (f"{key}: {part}", names)
            for key in "kl"
            for part, names in (("some", ["b", "c"]), ("rest", ["a", "d"]))
        ]
        assert_that(told, equal_to(expected))
