"""Tests of split responses that are late, missing or errors: no element is lost, and no caller waits long."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import apache_beam as beam
import desk as desk_module
import pytest
from apache_beam.io.restriction_trackers import OffsetRestrictionTracker
from apache_beam.portability.api import beam_fn_api_pb2, beam_runner_api_pb2
from beam_runner_model.stages import Environment
from desk import Desk, NumberRangeProvider
from last_stage import ThreadedCall, create_counting_stage
from tiny_host import Artifacts, Logs, TinyHost, create_job, new_pipeline, pickle_by_value

from beam_runner_worker.errors import HarnessError
from beam_runner_worker.fnapi import splits
from beam_runner_worker.fnapi.descriptors import plan_stage
from beam_runner_worker.fnapi.server import FnApiServer

pytestmark = pytest.mark.timeout(120)
pickle_by_value(__name__)
pickle_by_value(desk_module.__name__)


class StubbornTracker(OffsetRestrictionTracker):
    """A tracker whose split is slow, or fails."""

    def __init__(self, restriction: Any, desk: Desk) -> None:
        super().__init__(restriction)
        self.desk = desk

    def try_split(self, fraction: float) -> Any:
        self.desk.record_and_wait("split")
        if (self.desk.folder / "fail").exists():
            raise ValueError("this can't be split")
        return super().try_split(fraction)


class StubbornNumbers(NumberRangeProvider):
    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def create_tracker(self, restriction: Any) -> Any:
        # A tracker that waits in a split must not block claims of other threads.
        return StubbornTracker(restriction, self.desk)


def stubborn(desk: Desk) -> beam.DoFn:
    class Stubborn(beam.DoFn):
        def process(
            self,
            element: int,
            tracker: Any = beam.DoFn.RestrictionParam(StubbornNumbers(desk)),  # noqa: B008
        ) -> Any:
            number = tracker.current_restriction().start
            while tracker.try_claim(number):
                desk.record_and_wait(f"{element}:{number}")
                yield number
                number += 1

    return Stubborn()


def test_late_split_response_is_returned_by_the_next_split_call(serve, tmp_path, monkeypatch):
    monkeypatch.setattr(splits, "_SPLIT_SECONDS", 0.3)
    desk = Desk(tmp_path).hold("50:10", "split")
    last = create_counting_stage([50], stubborn(desk), serve)
    bundle = last.run(last.inputs)
    desk.wait_for("50:10")
    start = time.monotonic()
    assert last.stage.split(0.0, 1) is None
    assert time.monotonic() - start < 30
    desk.wait_for("split")
    assert last.stage.split(0.0, 1) is None
    (tmp_path / "hold split").unlink()
    split = last.stage.split(0.9, 1)
    assert len(split.residuals) == 1
    desk.release_place()
    bundle.result()
    last.run(last.elements(split)).result()
    assert [each for each in desk.notes() if each != "split"] == [f"50:{i}" for i in range(50)]


def test_bundle_with_unreported_split_fails(serve, tmp_path, monkeypatch):
    monkeypatch.setattr(splits, "_SPLIT_SECONDS", 0.3)
    desk = Desk(tmp_path).hold("50:10", "split")
    last = create_counting_stage([50], stubborn(desk), serve)
    bundle = last.run(last.inputs)
    desk.wait_for("50:10")
    assert last.stage.split(0.0, 1) is None
    desk.wait_for("split")
    desk.release_place()
    with pytest.raises(HarnessError, match="the unprocessed part of the bundle is unknown"):
        bundle.result()
    (tmp_path / "notes").unlink()
    last.run(last.inputs).result()
    assert len(desk.notes()) == 50


def test_unsplittable_tracker_is_logged_once(serve, tmp_path):
    desk = Desk(tmp_path).hold("50:10")
    (tmp_path / "fail").touch()
    last = create_counting_stage([50], stubborn(desk), serve)
    bundle = last.run(last.inputs)
    desk.wait_for("50:10")
    for _ in range(3):
        assert last.stage.split(0.0, 1) is None
    desk.release_place()
    assert bundle.result().residuals == ()
    warnings = [
        r.message for r in last.server._logs.records if "Can't split a bundle of" in r.message
    ]
    assert len(warnings) == 1
    assert "this can't be split" in warnings[0]
    assert len([each for each in desk.notes() if each != "split"]) == 50


def test_lost_harness_ends_bundle_and_split(
    boot: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The tracker would never respond, and no thread waits for it."""
    monkeypatch.setattr(splits, "_SPLIT_SECONDS", 60)
    payload = beam_runner_api_pb2.ProcessPayload(command=str(boot))
    environment = Environment("beam:env:process:v1", payload.SerializeToString())
    desk = Desk(tmp_path).hold("50:10", "split")
    servers = []

    def serve(host: TinyHost) -> FnApiServer:
        job = create_job(environment, environments=host.environment_ids)
        servers.append(FnApiServer(job, Artifacts(), Logs()))
        return servers[-1]

    try:
        last = create_counting_stage([50], stubborn(desk), serve)
        bundle = last.run(last.inputs)
        desk.wait_for("50:10")
        split = ThreadedCall(last.stage.split, 0.0, 1)
        desk.wait_for("split")
        pid = int((tmp_path / "pid").read_text())
        start = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        for call in (bundle, split):
            with pytest.raises(HarnessError, match="closed its"):
                call.result(30)
        assert time.monotonic() - start < 30
        assert last.stage.split(0.0, 1) is None
        assert last.stage.get_progress() is None
    finally:
        servers[0].close()


def test_unusable_split_response_is_refused():
    p = new_pipeline()
    p | beam.Impulse() | beam.Map(lambda x: x)
    plan = plan_stage(TinyHost(p).specs[0], "nowhere")
    source = plan.spec.input.transform_id
    (head,) = plan.heads
    response = beam_fn_api_pb2.ProcessBundleSplitResponse()
    assert splits.convert_split_response(response, plan, 5) is None
    response.residual_roots.add().application.transform_id = head
    with pytest.raises(HarnessError, match="without a split point"):
        splits.convert_split_response(response, plan, 5)
    response.channel_splits.add(
        transform_id=source, last_primary_element=0, first_residual_element=2
    )
    assert splits.convert_split_response(response, plan, 2).first_residual == 2
    with pytest.raises(HarnessError, match="at a point that the runner doesn't allow"):
        splits.convert_split_response(response, plan, 2, [2])
    response.ClearField("residual_roots")
    assert splits.convert_split_response(response, plan, 5, [2, 3]).first_residual == 2
    with pytest.raises(HarnessError, match="at a point that the runner doesn't allow"):
        splits.convert_split_response(response, plan, 5, [1, 3])
    response.residual_roots.add().application.transform_id = "elsewhere"
    with pytest.raises(HarnessError, match="deferred input of 'elsewhere'"):
        splits.convert_split_response(response, plan, 5)


@pytest.mark.parametrize("within", [False, True])
def test_split_response_without_transform_applies_to_the_only_input(within: bool):
    """The Java SDK responds in this way. Otherwise its residuals would be lost silently."""
    p = new_pipeline()
    p | beam.Impulse() | beam.Map(lambda x: x)
    plan = plan_stage(TinyHost(p).specs[0], "nowhere")
    response = beam_fn_api_pb2.ProcessBundleSplitResponse()
    channel = response.channel_splits.add(last_primary_element=1, first_residual_element=2)
    if within:
        response.residual_roots.add().application.transform_id = next(iter(plan.heads))
    split = splits.convert_split_response(response, plan, 5)
    assert (split.last_primary, split.first_residual, len(split.residuals)) == (1, 2, int(within))
    channel.transform_id = "another"
    with pytest.raises(HarnessError, match="without a split point"):
        splits.convert_split_response(response, plan, 5)


def test_split_residual_delays_are_reported_in_milliseconds():
    delayed = beam_fn_api_pb2.DelayedBundleApplication()
    delayed.application.transform_id = "head"
    assert splits.convert_residual(delayed, {"head"}).watermark is None
    delayed.requested_time_delay.FromNanoseconds(1_500_000_001)
    for name, nanoseconds in [("a", 7_000_000), ("b", -1_500_000_001)]:
        delayed.application.output_watermarks[name].FromNanoseconds(nanoseconds)
    found = splits.convert_residual(delayed, {"head"})
    assert (found.delay_ms, found.watermark) == (1501, -1501)
