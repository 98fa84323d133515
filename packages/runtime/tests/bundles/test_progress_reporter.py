"""Tests of the times at which a running bundle reports its progress."""

from __future__ import annotations

import threading
import weakref
from typing import Any

import attrs
import pytest
from beam_runner_model.bundles import MonitoringInfo
from beam_runner_urns import metrics as urns
from beam_runner_worker.core_times import CoreTime

from beam_runner_runtime.bundles import progress_reporter as telling_module
from beam_runner_runtime.bundles.progress_reporter import ProgressReporter
from beam_runner_runtime.channel.attempts import Attempt
from beam_runner_runtime.channel.messages import BundleProgressed
from beam_runner_runtime.tuning import TUNING


def count(number: int) -> MonitoringInfo:
    labels = (("PCOLLECTION", "out"),)
    return MonitoringInfo(urns.ELEMENT_COUNT, urns.SUM_INT64_TYPE, labels, bytes([number]))


@attrs.define
class Running:
    """A running bundle with settable progress. The test sets ``elapsed``."""

    stage_id: str = "source"
    is_embedded: bool = True
    output: int = 1
    waits: bool | None = None
    thread: int = 0
    bundle_id: str = "b"
    elapsed: int = 0

    def get_progress(self) -> BundleProgressed:
        return BundleProgressed(Attempt(1, 1), 0.5, self.elapsed, (count(self.output),), self.waits)


class Telling:
    """A progress reporter and its reports."""

    def __init__(self) -> None:
        self.running: Any = None
        self.reports: list[BundleProgressed] = []
        self.has_told = threading.Event()
        self.teller = ProgressReporter(
            lambda: self.running,
            Running.get_progress,
            self._tell,
            {"source"},
            in_turns=False,
        )

    def _tell(self, progress: BundleProgressed) -> None:
        self.reports.append(progress)
        self.has_told.set()

    def run(self, running: Running, most: int) -> list[BundleProgressed]:
        """Returns the reports about a bundle that is checked repeatedly for this number of milliseconds."""
        self.running = running
        for running.elapsed in range(0, most, int(1000 * TUNING.source_look_seconds)):
            self.teller.report_if_due(running)
        return self.reports


@pytest.fixture
def telling(monkeypatch: pytest.MonkeyPatch) -> Telling:
    """Returns a reporter on an idle machine whose threads want no core, unless a test changes this."""
    monkeypatch.setattr(telling_module, "read_thread_time", lambda _: CoreTime(0.0, 0.0))
    telling = Telling()
    monkeypatch.setattr(telling.teller._slowness, "measure_factor", lambda: 1.0)
    return telling


def test_progress_of_waiting_source_is_reported_soon_after_output(telling: Telling) -> None:
    told = telling.run(Running(), 400)
    assert all(one.lingers for one in told)
    # Without a split, the bundle reports again at growing intervals.
    assert [one.elapsed for one in told] == [50, 100, 200]


def test_progress_of_waiting_source_without_output_is_reported_later(telling: Telling) -> None:
    told = telling.run(Running(output=0), 800)
    assert [one.elapsed for one in told[:1]] == [500]
    assert not told[0].lingers


@pytest.mark.parametrize("knows", [True, False])
def test_progress_of_busy_source_is_reported_later(
    telling: Telling, monkeypatch: pytest.MonkeyPatch, knows: bool
) -> None:
    def busy(_: int) -> CoreTime | None:
        return CoreTime(telling.running.elapsed / 1000, 0.0) if knows else None

    monkeypatch.setattr(telling_module, "read_thread_time", busy)
    told = telling.run(Running(), 800)
    assert [one.elapsed for one in told[:1]] == [500]
    assert not told[0].lingers


@pytest.mark.parametrize(("waits", "lingers"), [(True, True), (None, False), (False, False)])
def test_progress_of_source_in_external_sdk_counts_as_waiting_by_its_wait_time(
    telling: Telling, waits: bool | None, lingers: bool
) -> None:
    told = telling.run(Running(is_embedded=False, waits=waits), 300)
    assert [one.lingers for one in told[:1]] == [True] * lingers


def test_progress_interval_is_longer_on_busy_machine(
    telling: Telling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telling.teller._slowness, "measure_factor", lambda: 4.0)
    told = telling.run(Running(), 600)
    assert told[0].elapsed == 4 * TUNING.lingers_ms
    assert told[0].lingers


class Over(Exception):
    """An exception that ends the loop after enough checks."""


@pytest.mark.parametrize(
    ("stage", "seconds"),
    [("source", TUNING.source_look_seconds), ("other", TUNING.progress_seconds)],
)
def test_progress_of_sources_is_checked_more_often_than_of_other_stages(
    telling: Telling, monkeypatch: pytest.MonkeyPatch, stage: str, seconds: float
) -> None:
    telling.running = Running(stage, elapsed=1_000)
    pauses: list[float] = []

    def wait(pause: float) -> bool:
        pauses.append(pause)
        if len(pauses) > 3:
            raise Over
        return False

    monkeypatch.setattr(telling.teller._begun, "wait", wait)
    with pytest.raises(Over):
        telling.teller.run()
    assert set(pauses) == {seconds}
    assert telling.reports


def test_only_bundles_of_sources_are_reported_as_waiting_for_input(telling: Telling) -> None:
    told = telling.run(Running(stage_id="other"), 1_300)
    assert told[0].elapsed == 500
    assert not any(one.lingers for one in told)


def test_progress_of_starting_source_is_checked_immediately(
    telling: Telling, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without a started bundle, the next check is in an hour.
    monkeypatch.setattr(telling_module, "TUNING", attrs.evolve(TUNING, progress_seconds=3_600.0))
    waits, wait = threading.Event(), telling.teller._begun.wait

    def waited(seconds: float) -> bool:
        waits.set()
        return wait(seconds)

    monkeypatch.setattr(telling.teller._begun, "wait", waited)
    threading.Thread(target=telling.teller.run, daemon=True).start()
    assert waits.wait(60)
    telling.running = Running(elapsed=100)
    telling.teller.notify_bundle_start("source")
    assert telling.has_told.wait(60)
    telling.running = None


@pytest.mark.parametrize("stage", ["source", "other"])
def test_progress_reporter_keeps_no_reference_to_finished_source(
    telling: Telling, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    telling.running = Running(stage, elapsed=1_000)
    known = weakref.ref(telling.running)

    def wait(_: float) -> bool:
        if known() is None:
            raise Over
        assert telling.running is not None, "data in memory is retained"
        if telling.reports:
            telling.running = None
        return False

    monkeypatch.setattr(telling.teller._begun, "wait", wait)
    with pytest.raises(Over):
        telling.teller.run()
