"""Tests of the warning about windows of a stream that merge in two groupings."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest
import samples
from apache_beam.testing.test_stream import TestStream as Script
from apache_beam.transforms.window import FixedWindows, Sessions, WindowFn

from beam_runner_planner.regrouped_windows import describe_regrouped_windows

SESSIONS = Sessions(10)


def describe(build: samples.Build) -> str:
    return describe_regrouped_windows(samples.built(build).SerializeToString())


def make_pairs(p: beam.Pipeline, window_fn: WindowFn, *, stream: bool = True) -> Any:
    pairs = p | (Script().add_elements([("a", 1)]) if stream else beam.Create([("a", 1)]))
    return pairs | beam.WindowInto(window_fn)


def group(pairs: Any, name: str) -> Any:
    groups = pairs | name >> beam.GroupByKey()
    return groups | f"count {name}" >> beam.MapTuple(lambda key, values: (key, len(list(values))))


def group_and_combine(p: beam.Pipeline) -> None:
    _ = group(make_pairs(p, SESSIONS), "first") | "Sum" >> beam.CombinePerKey(sum)


def group_twice(p: beam.Pipeline) -> None:
    group(group(make_pairs(p, SESSIONS), "first"), "second")


def group_fixed_windows_twice(p: beam.Pipeline) -> None:
    group(group(make_pairs(p, FixedWindows(10)), "first"), "second")


def group_bounded_sessions_twice(p: beam.Pipeline) -> None:
    group(group(make_pairs(p, SESSIONS, stream=False), "first"), "second")


def assign_windows_between(p: beam.Pipeline) -> None:
    group(group(make_pairs(p, SESSIONS), "first") | "w" >> beam.WindowInto(SESSIONS), "second")


def read_groups_as_side_input(p: beam.Pipeline) -> None:
    pairs = make_pairs(p, SESSIONS)
    first = group(pairs, "first") | "w" >> beam.WindowInto(FixedWindows(10))
    group(pairs | "side" >> beam.Map(lambda pair, _: pair, beam.pvalue.AsIter(first)), "second")


def test_session_windows_that_merge_twice_are_named() -> None:
    assert "'second' after 'first'" in describe(group_twice)
    assert "'Sum' after 'first'" in describe(group_and_combine)


@pytest.mark.parametrize(
    "build",
    [
        group_fixed_windows_twice,
        group_bounded_sessions_twice,
        assign_windows_between,
        read_groups_as_side_input,
    ],
    ids=lambda build: build.__name__,
)
def test_windows_that_merge_once_get_no_warning(build: samples.Build) -> None:
    assert describe(build) == ""
