"""Tests of the progress of a running bundle: its current metrics, and its finished elements."""

from __future__ import annotations

import apache_beam as beam
import desk as desk_module
import pytest
from apache_beam import coders
from apache_beam.metrics import Metrics
from beam_runner_model.bundles import BundleProgress, MonitoringInfo
from beam_runner_urns import metrics as urns
from desk import CountNumbers, Desk
from last_stage import LastStage, create_counting_stage, create_visiting_stage
from tiny_host import elements, new_pipeline, pickle_by_value

from beam_runner_worker.fnapi.progress import count_processed_elements

pytestmark = pytest.mark.timeout(120)
pickle_by_value(__name__)
pickle_by_value(desk_module.__name__)


def info(urn: str, transform: str, payload: bytes) -> MonitoringInfo:
    return MonitoringInfo(urn, "t", (("OTHER", "x"), ("PTRANSFORM", transform)), payload)


def index(number: int, transform: str = "source") -> MonitoringInfo:
    return info(urns.DATA_CHANNEL_READ_INDEX, transform, coders.VarIntCoder().encode(number))


def work(urn: str, *amounts: float, transform: str = "head") -> MonitoringInfo:
    encoded = coders.IterableCoder(coders.FloatCoder()).encode(list(amounts))
    return info(urn, transform, encoded)


@pytest.mark.parametrize(
    ("infos", "expected"),
    [
        ([], 0.0),
        ([index(-1)], 0.0),
        ([index(0)], 0.0),
        ([index(300), index(7, "other")], 300.0),
        ([index(3), work(urns.WORK_COMPLETED, 1), work(urns.WORK_REMAINING, 3)], 3.25),
        ([work(urns.WORK_REMAINING, 1, 1), index(3), work(urns.WORK_COMPLETED, 2, 0)], 3.5),
        ([index(3), work(urns.WORK_COMPLETED, 1), work(urns.WORK_REMAINING, 0)], 4.0),
        ([index(3), work(urns.WORK_COMPLETED, 0), work(urns.WORK_REMAINING, 0)], 3.0),
        ([index(3), work(urns.WORK_COMPLETED, 5), work(urns.WORK_REMAINING, float("inf"))], 3.0),
        ([index(3), work(urns.WORK_COMPLETED, 5), work(urns.WORK_REMAINING, float("nan"))], 3.0),
        ([index(3), work(urns.WORK_COMPLETED, 1, transform="later")], 3.0),
    ],
)
def test_bundle_progress_adds_elements_and_fractions(infos: list[MonitoringInfo], expected: float):
    assert count_processed_elements(infos, "source", {"head"}) == expected


class CountsElements(beam.DoFn):
    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def process(self, element):
        Metrics.counter("ns", "begun").inc()
        self.desk.record_and_wait(element.decode())


def test_metrics_and_elements_of_running_bundle_are_returned(serve, tmp_path):
    desk = Desk(tmp_path).hold(2)
    p = new_pipeline()
    p | beam.Impulse() | "Count" >> beam.ParDo(CountsElements(desk))
    last = LastStage(p, serve)
    # No progress is reported, unless the harness is still starting.
    assert last.stage.get_progress() in (None, BundleProgress((), 0.0, starts=True))
    bundle = last.run([elements(b"0", b"1", b"2", b"3")])
    desk.wait_for(2)
    progress = last.stage.get_progress()
    assert progress.processed == 2.0
    (begun,) = (each for each in progress.metrics if dict(each.labels).get("NAME") == "begun")
    assert begun.payload == b"\x03"
    desk.release_place()
    (begun,) = (each for each in bundle.result().metrics if ("NAME", "begun") in each.labels)
    assert begun.payload == b"\x04"
    assert last.stage.get_progress() is None


def test_bundle_progress_before_first_element_is_zero(serve, tmp_path):
    desk = Desk(tmp_path).hold(0)
    last = create_visiting_stage([0, 1], desk, serve)
    bundle = last.run(last.inputs)
    desk.wait_for(0)
    assert last.stage.get_progress().processed == 0.0
    desk.release_place()
    bundle.result()


def test_bundle_progress_counts_fraction_of_current_element(serve, tmp_path):
    desk = Desk(tmp_path).hold("40:10")
    last = create_counting_stage([5, 40], CountNumbers(desk), serve)
    bundle = last.run(last.inputs)
    desk.wait_for("40:10")
    assert 1.2 <= last.stage.get_progress().processed <= 1.3
    # Residuals no longer belong to the bundle.
    assert last.stage.split(0.5, 2) is not None
    assert 1.35 <= last.stage.get_progress().processed <= 1.5
    desk.release_place()
    bundle.result()
