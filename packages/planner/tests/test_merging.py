"""Tests of custom windows: their encoding, and merge requests to an SDK."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import custom_windows
import pytest
import samples
from apache_beam.runners.worker import statesampler
from apache_beam.transforms.window import FixedWindows, Sessions
from beam_runner_data.side_inputs.side_inputs import BundleSideInputs
from beam_runner_embedded.harness import EmbeddedHarness
from beam_runner_model.buffers import BufferKind, BufferPlan, MergingPlan
from beam_runner_model.stages import JobContext
from beam_runner_model.window_coders import WindowCoder
from beam_runner_model.windows import OpaqueWindow
from beam_runner_runtime.bundles.merging import SdkMerger
from beam_runner_urns import coders as coder_urns
from beam_runner_worker.errors import BundleError
from beam_runner_worker.log_records import LogRecord

from beam_runner_planner import _protos

both_ways = pytest.mark.parametrize(
    "flags", [samples.EMBEDDED, samples.EXTERNAL], ids=["embedded", "external"]
)


def grouped(build: samples.Build, *flags: str) -> BufferPlan:
    (buffer,) = (
        b for b in samples.plan_of(build, *flags).buffers.values() if b.kind is BufferKind.GROUPED
    )
    return buffer


@both_ways
def test_custom_coded_windows_are_length_prefixed(
    flags: tuple[str, ...],
) -> None:
    plan = samples.plan_of(custom_windows.FIXED, *flags)
    (buffer,) = (b for b in plan.buffers.values() if b.kind is BufferKind.GROUPED)
    assert buffer.strategy is not None
    assert buffer.strategy.window_coder is WindowCoder.CUSTOM
    assert buffer.merging is None
    for stage in plan.stages.values():
        descriptor = _protos.ProcessBundleDescriptor.FromString(stage.spec.descriptor)
        for strategy in descriptor.windowing_strategies.values():
            coder = descriptor.coders[strategy.window_coder_id]
            if coder.spec.urn not in (coder_urns.GLOBAL_WINDOW, coder_urns.INTERVAL_WINDOW):
                assert coder.spec.urn == coder_urns.CUSTOM_WINDOW
                (inner,) = coder.component_coder_ids
                assert descriptor.coders[inner].spec.urn == coder_urns.LENGTH_PREFIX


@pytest.mark.parametrize("window_fn", [FixedWindows(10), Sessions(10)])
def test_windows_with_standard_coder_are_merged_by_engine(window_fn: Any) -> None:
    assert grouped(custom_windows.grouped_in(window_fn)).merging is None


@both_ways
def test_custom_windows_of_sdk_are_merged_by_separate_stage(flags: tuple[str, ...]) -> None:
    buffer = grouped(custom_windows.MERGING, *flags)
    assert buffer.merging is not None
    assert buffer.merging.embedded == (flags is samples.EMBEDDED)
    descriptor = _protos.ProcessBundleDescriptor.FromString(buffer.merging.spec.descriptor)
    assert buffer.merging.spec.environment_id in descriptor.environments
    assert "GroupByKey/MergeWindows" in {t.unique_name for t in descriptor.transforms.values()}


class NoHost:
    """Runner side of a harness, without artifacts and without logs."""

    def read_artifact(self, sha256: str) -> Iterator[bytes]:
        raise KeyError(sha256)

    def log_records(self, records: Iterable[LogRecord]) -> None:
        return None


@pytest.fixture
def harness() -> Iterator[EmbeddedHarness]:
    harness = EmbeddedHarness(JobContext("job", "job", "{}", {}), NoHost(), NoHost())
    yield harness
    harness.close()


def merger_of(harness: EmbeddedHarness, build: samples.Build, tmp_path: Any) -> SdkMerger:
    plan = grouped(build).merging
    assert isinstance(plan, MergingPlan)
    stage = harness.get_stage_harness(plan.spec, BundleSideInputs((), tmp_path))
    return SdkMerger(stage, plan.spec.outputs[0].transform_id, WindowCoder.CUSTOM)


def window(end: int, color: str) -> OpaqueWindow:
    """Returns a colored window that ends at `end` seconds."""
    colored = custom_windows.Colored(beam.utils.timestamp.Timestamp(end), color)
    return OpaqueWindow(custom_windows.ColoredCoder().encode(colored), end * 1000 - 1)


def test_window_merger_of_python_returns_merged_windows(
    harness: EmbeddedHarness, tmp_path: Any
) -> None:
    merger = merger_of(harness, custom_windows.MERGING, tmp_path)
    even, later, odd = window(10, "even"), window(20, "even"), window(11, "odd")
    asked = [[even, later, odd], [odd], [], [later]]
    for _ in range(2):
        assert merger.merge_windows(asked) == [{even: later, later: later}, {}, {}, {later: later}]
    many = [[window(n, "even"), window(n + 2, "even")] for n in range(2500)]
    answers = merger.merge_windows(many)
    assert [answer[windows[0]] for answer, windows in zip(answers, many, strict=True)] == [
        windows[1] for windows in many
    ]


def test_window_merging_restores_state_sampler_of_running_bundle(
    harness: EmbeddedHarness, tmp_path: Any
) -> None:
    outer = object()
    statesampler.set_current_tracker(outer)
    try:
        merger_of(harness, custom_windows.MERGING, tmp_path).merge_windows([[window(10, "even")]])
        assert statesampler.get_current_tracker() is outer
    finally:
        statesampler.set_current_tracker(None)


@pytest.mark.parametrize("size", [*range(60), 100, 400, 8000, 400_000])
def test_window_merger_accepts_pickled_function_of_any_length(
    harness: EmbeddedHarness, tmp_path: Any, size: int
) -> None:
    ballast = random.Random(size).randbytes(size).hex()
    function = custom_windows.Merging(ballast)
    merger = merger_of(harness, custom_windows.grouped_in(function), tmp_path)
    even, later = window(10, "even"), window(20, "even")
    assert merger.merge_windows([[even, later]]) == [{even: later, later: later}]


def test_window_merger_reports_failing_window_function(
    harness: EmbeddedHarness, tmp_path: Any
) -> None:
    merger = merger_of(harness, custom_windows.REFUSING, tmp_path)
    with pytest.raises(BundleError, match="I do not merge") as raised:
        merger.merge_windows([[window(10, "even")]])
    assert raised.value.transform == "GroupByKey/MergeWindows"
