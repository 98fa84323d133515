"""Tests of the progress that a worker process reports about its tasks of a section (a Spark job)."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from apache_beam.coders import VarIntCoder
from beam_runner_engine.scheduler.events import BundleDone
from beam_runner_model.bundles import MonitoringInfo
from beam_runner_urns import metrics as urns

from beam_runner_runtime.channel.attempts import Attempt, BundleFailure
from beam_runner_runtime.channel.messages import BundleProgressed, BundleReply
from beam_runner_runtime.sections import progress as section_progress_module
from beam_runner_runtime.sections.progress import SectionProgress

_INTEGER = VarIntCoder()
FIRST, SECOND = Attempt(7, 1), Attempt(7, 2)


def count(number: int) -> tuple[MonitoringInfo, ...]:
    payload = _INTEGER.encode(number)
    return (
        MonitoringInfo(urns.ELEMENT_COUNT, urns.SUM_INT64_TYPE, (("PCOLLECTION", "a"),), payload),
    )


def counted(progress: BundleProgressed | None) -> int:
    assert progress is not None
    (info,) = progress.metrics
    return int(_INTEGER.decode(info.payload))


def done(attempt: Attempt, number: int) -> BundleReply:
    return BundleReply(BundleDone(attempt.bundle, attempt.attempt), None, count(number))


@attrs.define
class Running:
    """A running bundle with settable progress."""

    attempt: Attempt
    number: int | None = 3

    def get_progress(self) -> BundleProgressed | None:
        if self.number is None:
            return None
        return BundleProgressed(self.attempt, 0.5, 700, count(self.number))


@pytest.fixture
def told() -> list[BundleProgressed]:
    return []


@pytest.fixture
def progress(told: list[BundleProgressed]) -> SectionProgress:
    return SectionProgress(told.append)


def of(progress: SectionProgress, running: Any) -> BundleProgressed | None:
    return progress.read_progress(running)


def test_section_progress_is_not_added_to_other_bundles(progress: SectionProgress) -> None:
    progress.record_bundle_end(done(FIRST, 100))
    assert counted(of(progress, Running(Attempt(8, 1)))) == 3


def test_section_progress_includes_finished_and_running_bundles(progress: SectionProgress) -> None:
    assert counted(of(progress, Running(FIRST))) == 3
    progress.record_bundle_end(done(FIRST, 10))
    progress.record_bundle_end(done(FIRST, 20))
    assert counted(of(progress, Running(FIRST))) == 33
    assert of(progress, Running(FIRST, None)) is None


def test_section_progress_of_next_attempt_starts_at_zero_elements(
    progress: SectionProgress,
) -> None:
    progress.record_bundle_end(done(FIRST, 10))
    progress.record_bundle_end(done(SECOND, 1))
    assert counted(of(progress, Running(SECOND))) == 4
    assert counted(of(progress, Running(FIRST))) == 3


def test_section_progress_counts_bundle_that_ends_between_samples_once(
    progress: SectionProgress,
) -> None:
    class JobFailure(Running):
        def get_progress(self) -> BundleProgressed | None:
            progress.record_bundle_end(done(FIRST, 3))
            return super().get_progress()

    progress.record_bundle_end(done(FIRST, 10))
    assert counted(of(progress, JobFailure(FIRST))) == 13


def test_section_progress_of_short_bundles_is_reported_periodically(
    progress: SectionProgress, told: list[BundleProgressed], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [progress._told]
    monkeypatch.setattr(section_progress_module.time, "monotonic", lambda: now[0])
    for _ in range(100):
        now[0] += 0.01
        assert progress.record_bundle_end(done(FIRST, 1)) == done(FIRST, 1)
    assert 1 <= len(told) <= 2
    assert counted(told[0]) >= 49


def test_section_progress_excludes_failed_bundles(
    progress: SectionProgress, told: list[BundleProgressed]
) -> None:
    broken = BundleFailure(FIRST, None, "lost")
    assert progress.record_bundle_end(broken) is broken
    assert counted(of(progress, Running(FIRST))) == 3
    assert told == []
