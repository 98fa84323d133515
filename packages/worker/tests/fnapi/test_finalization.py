"""Tests that finalization callbacks run in the process that registered them when the bundle is
finalized, and not earlier.
"""

from __future__ import annotations

from pathlib import Path

import apache_beam as beam
import desk as desk_module
import pytest
from apache_beam.portability.api import beam_fn_api_pb2
from desk import Desk
from last_stage import LastStage
from tiny_host import elements, new_pipeline, pickle_by_value

from beam_runner_worker.errors import HarnessError
from beam_runner_worker.fnapi.connection import SdkConnection
from beam_runner_worker.fnapi.finalization import PendingFinalizations

pytestmark = pytest.mark.timeout(120)
pickle_by_value(__name__)
pickle_by_value(desk_module.__name__)


class Acknowledges(beam.DoFn):
    """A DoFn that acknowledges each element after the commit, and fails for some elements."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def process(self, element, finalizer=beam.DoFn.BundleFinalizerParam):
        text = element.decode()
        if text != "unregistered":
            finalizer.register(lambda: self.acknowledge(text))

    def acknowledge(self, text: str) -> None:
        self.desk.record_and_wait(text)
        if text == "failing":
            raise ValueError("not acknowledged")


def test_callbacks_run_after_their_bundle_is_finalized(serve, tmp_path: Path, caplog):
    desk = Desk(tmp_path)
    p = new_pipeline()
    p | beam.Impulse() | beam.ParDo(Acknowledges(desk))
    last = LastStage(p, serve)

    def bundle(name: str, *texts: bytes) -> bool:
        return last.stage.process_bundle(name, [elements(*texts)], {}).requires_finalization

    assert bundle("1", b"a", b"b")
    assert bundle("2", b"failing", b"c")
    assert not bundle("3", b"unregistered")
    assert bundle("4", b"d")
    assert desk.notes() == []
    last.stage.finalize_bundle("2")
    assert desk.notes() == ["failing", "c"]
    last.stage.finalize_bundle("1")
    assert desk.notes() == ["failing", "c", "a", "b"]
    for again in ("1", "2", "3", "unknown"):
        last.stage.finalize_bundle(again)
    assert desk.notes() == ["failing", "c", "a", "b"]
    last.stage.finalize_bundle("4")
    assert desk.notes()[-1] == "d"
    assert "not acknowledged" in caplog.text


class Connection(SdkConnection):
    """A connection that stores its requests."""

    def __init__(self) -> None:
        super().__init__("worker", "environment")
        self.asked: list[str] = []

    def send_and_wait(
        self, request: beam_fn_api_pb2.InstructionRequest, limit: float
    ) -> beam_fn_api_pb2.InstructionResponse:
        if not self.is_usable:
            raise HarnessError("the SDK is gone")
        self.asked.append(request.finalize_bundle.instruction_id)
        return beam_fn_api_pb2.InstructionResponse()


def test_bundles_that_are_never_finalized_are_dropped():
    warnings: list[str] = []
    now, connection = 0.0, Connection()
    waiting = PendingFinalizations(warnings.append, lambda: now)
    for number in range(1500):
        waiting.add_bundle(f"b{number}", connection, [f"i{number}"])
    for number in (0, 499, 500, 1499):
        waiting.finalize_bundle(f"b{number}")
    assert connection.asked == ["i500", "i1499"]
    now = 4000.0
    waiting.add_bundle("late", connection, ["late"])
    waiting.finalize_bundle("b700")
    waiting.finalize_bundle("late")
    assert connection.asked == ["i500", "i1499", "late"]
    assert warnings == []


def test_all_sdk_bundles_of_one_runner_bundle_are_finalized():
    connection = Connection()
    waiting = PendingFinalizations(pytest.fail)
    waiting.add_bundle("b", connection, ["i1", "i2", "i3"])
    waiting.finalize_bundle("b")
    assert connection.asked == ["i1", "i2", "i3"]


def test_finalization_of_later_attempt_replaces_earlier_attempt():
    connection = Connection()
    waiting = PendingFinalizations(pytest.fail)
    waiting.add_bundle("b", connection, ["first"])
    waiting.add_bundle("b", connection, ["second"])
    waiting.finalize_bundle("b")
    assert connection.asked == ["second"]


def test_finalization_with_lost_sdk_is_logged_or_ignored():
    warnings: list[str] = []
    lost, other = Connection(), Connection()
    waiting = PendingFinalizations(warnings.append)
    waiting.add_bundle("1", lost, ["i1"])
    waiting.add_bundle("2", lost, ["i2"])
    lost.mark_lost("it was killed")
    waiting.finalize_bundle("1")
    assert warnings == [
        "the bundle '1' was committed, but its finalization failed: the SDK is gone"
    ]
    waiting.add_bundle("3", other, ["i3"])
    waiting.finalize_bundle("2")
    waiting.finalize_bundle("3")
    assert len(warnings) == 1
    assert other.asked == ["i3"]
