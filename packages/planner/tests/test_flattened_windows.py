"""Tests of flattens of PCollections with different window functions: unsupported flattens are refused by name."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest
import samples
from apache_beam.coders import StrUtf8Coder
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    NonMergingWindowFn,
    Sessions,
    SlidingWindows,
    WindowFn,
)

from beam_runner_planner import _protos
from beam_runner_planner.errors import UnsupportedPipeline
from beam_runner_planner.translate import plan_job


class OwnWindows(NonMergingWindowFn):
    def assign(self, assign_context: Any) -> list[Any]:
        return []

    def get_window_coder(self) -> Any:
        return StrUtf8Coder()


def flatten_of(*window_fns: WindowFn) -> _protos.Pipeline:
    def build(p: beam.Pipeline) -> None:
        windowed = [
            p | f"numbers {n}" >> beam.Create([n]) | f"windows {n}" >> beam.WindowInto(window_fn)
            for n, window_fn in enumerate(window_fns)
        ]
        windowed | "All" >> beam.Flatten() | beam.Map(str)

    return samples.proto_of(build, *samples.EMBEDDED, "--streaming")


@pytest.mark.parametrize(
    ("window_fns", "text"),
    [
        (
            (FixedWindows(10), GlobalWindows()),
            r"of elements in GlobalWindows\(\) into FixedWindows\(size=10000.*'All'",
        ),
        (
            (GlobalWindows(), Sessions(1), Sessions(2)),
            r"of elements in Sessions\(gap=1000\) into Global.*; a Flatten .*Sessions\(gap=2000\)",
        ),
        (
            (FixedWindows(10), OwnWindows()),
            r"of elements in 'beam:window_fn:pickled_python:v1' into FixedWindows.*'All'",
        ),
    ],
)
def test_flatten_of_windows_with_different_coders_is_refused_by_name(
    window_fns: tuple[WindowFn, ...], text: str
) -> None:
    with pytest.raises(UnsupportedPipeline, match=text):
        plan_job(samples.job_of(flatten_of(*window_fns)))


def test_flatten_of_windows_with_one_coder_is_planned() -> None:
    proto = flatten_of(FixedWindows(10), SlidingWindows(10, 5), Sessions(3))
    assert len(plan_job(samples.job_of(proto)).stages) >= 1


def test_flatten_of_windows_with_equal_coders_of_two_sdks_is_planned() -> None:
    proto = flatten_of(FixedWindows(10), SlidingWindows(10, 5))
    components = proto.components
    for number, strategy in enumerate(components.windowing_strategies.values()):
        copied = f"{strategy.window_coder_id}/{number}"
        components.coders[copied].CopyFrom(components.coders[strategy.window_coder_id])
        strategy.window_coder_id = copied
    assert len(plan_job(samples.job_of(proto)).stages) >= 1
