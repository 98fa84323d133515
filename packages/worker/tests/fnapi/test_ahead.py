"""Bundles that are opened before their input is there."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.portability.api import beam_fn_api_pb2
from beam_runner_model.stages import Environment
from desk import Desk
from last_stage import LastStage
from tiny_host import TinyHost, elements, new_pipeline, pickle_by_value
from waiting import wait_until

from beam_runner_worker.errors import BundleFailed
from beam_runner_worker.fnapi.bundle import Received, RunningBundle
from beam_runner_worker.fnapi.bundle_state import BundleState
from beam_runner_worker.fnapi.descriptors import plan_stage
from beam_runner_worker.fnapi.side_inputs import SideInputPages
from beam_runner_worker.fnapi.transfer import Transfer

pytestmark = pytest.mark.timeout(120)
pickle_by_value(__name__)
pickle_by_value("desk")
SOON_SECONDS = 30.0


class Notes(beam.DoFn):
    """Notes what is done with it; its first setup may fail."""

    def __init__(self, desk: Desk, *, fails: bool = False) -> None:
        self.desk = desk
        self.fails = fails

    def setup(self):
        self.desk.come_to("setup")
        if self.fails and self.desk.notes().count("setup") == 1:
            raise ValueError("not yet")

    def start_bundle(self):
        self.desk.come_to("start")

    def process(self, element):
        self.desk.come_to(element.decode())

    def finish_bundle(self):
        self.desk.come_to("finish")

    def teardown(self):
        self.desk.come_to("teardown")


def noting(desk: Desk, server_for: Any, **more: bool) -> LastStage:
    p = new_pipeline()
    p | beam.Impulse() | "Note" >> beam.ParDo(Notes(desk, **more))
    return LastStage(p, server_for)


def test_a_bundle_is_set_up_once_and_gets_its_input(serve, tmp_path: Path):
    desk = Desk(tmp_path)
    one = noting(desk, serve)
    one.stage.set_up()
    one.stage.set_up()
    wait_until(lambda: desk.notes() == ["setup", "start"])
    assert one.stage.progress() is None
    one.stage.process_bundle("b", [elements(b"x", b"y")], {})
    assert desk.notes() == ["setup", "start", "x", "y", "finish"]
    one.stage.process_bundle("c", [elements(b"z")], {})
    assert desk.notes()[5:] == ["start", "z", "finish"]


def test_a_bundle_that_is_not_needed_ends_with_the_harness(serve, tmp_path: Path):
    desk = Desk(tmp_path)
    one = noting(desk, serve)
    one.stage.set_up()
    wait_until(lambda: "start" in desk.notes())
    begin = time.monotonic()
    one.server.close()
    assert time.monotonic() - begin < SOON_SECONDS
    wait_until(lambda: desk.notes() == ["setup", "start", "finish", "teardown"])


def test_what_fails_ahead_is_told_when_the_bundle_comes(serve, tmp_path: Path):
    desk = Desk(tmp_path)
    one = noting(desk, serve, fails=True)
    one.stage.set_up()
    wait_until(lambda: desk.notes() == ["setup"])
    with pytest.raises(BundleFailed) as failed:
        one.stage.process_bundle("b", [elements(b"x")], {})
    assert "not yet" in failed.value.summary
    one.stage.process_bundle("b", [elements(b"x")], {})
    assert desk.notes()[-2:] == ["x", "finish"]


def test_a_bundle_that_is_lost_with_its_sdk_is_opened_in_the_next(
    process_pool: Environment, serve, tmp_path: Path
):
    desk = Desk(tmp_path)
    one = noting(desk, lambda host: serve(host, process_pool))
    connection = one.server.harness(one.spec.environment_id).sdk().connection
    one.stage.set_up()
    wait_until(lambda: "start" in desk.notes())
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    wait_until(lambda: not connection.usable)
    one.stage.process_bundle("b", [elements(b"x")], {})
    assert desk.notes() == ["setup", "start", "setup", "start", "x", "finish"]


def test_the_host_is_told_when_only_the_response_is_waited_for():
    p = new_pipeline()
    p | beam.Impulse() | beam.Map(lambda x: (x, x)) | beam.GroupByKey() | beam.Map(print)
    host = TinyHost(p)
    spec, _ = host.specs
    plan = plan_stage(spec, "localhost:1")
    pages = SideInputPages(host.side_inputs(spec), plan.side_inputs)
    bundle = RunningBundle("b#1", BundleState(pages, None, plan.stateful.state))
    connection: Any = SimpleNamespace(send=lambda *message: None)
    told: list[bool] = []

    def on_written() -> None:
        told.append(bundle.response is None)
        bundle.respond(beam_fn_api_pb2.InstructionResponse())

    (sink,) = host.outputs(spec)
    bundle.receive(Received(sink, None, b"", is_last=True))
    transfer = Transfer(plan, connection, bundle, host.outputs(spec), on_written)
    assert transfer.run([elements(b"")]) is bundle.response
    assert told == [True]
