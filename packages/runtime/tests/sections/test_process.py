"""Tests of the services that a worker process offers to Spark tasks of a section."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from apache_beam.coders import VarIntCoder
from beam_runner_engine.scheduler.events import BundleDone
from beam_runner_model.bundles import MonitoringInfo
from beam_runner_urns import metrics as urns

from beam_runner_runtime.channel.attempts import Attempt, SectionRefusal
from beam_runner_runtime.channel.messages import BundleProgressed, BundleReply
from beam_runner_runtime.sections.process import SectionProcess, get_section_process

ATTEMPT = Attempt(7, 1)


def count(number: int) -> tuple[MonitoringInfo, ...]:
    labels, payload = (("PCOLLECTION", "a"),), VarIntCoder().encode(number)
    return (MonitoringInfo(urns.ELEMENT_COUNT, urns.SUM_INT64_TYPE, labels, payload),)


class Process:
    """A worker process whose bundles count three elements each."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.logged: list[Any] = []
        self.channel = SimpleNamespace(send=self.sent.append)
        self.stages = SimpleNamespace(log_records=self.logged.extend)
        self.work = self.data = self.scratch = self.clock = None
        self.progress: Any = None

    def run_section_bundle(self, order: Any, stores: Any, data: Any) -> BundleReply:
        return BundleReply(BundleDone(*order), None, count(3))


@pytest.fixture
def process() -> Any:
    return Process()


def test_section_bundle_progress_includes_finished_bundles(process: Any) -> None:
    host: Any = SectionProcess(process)
    for _ in range(2):
        host.run_bundle((7, 1), None, None)
    running = SimpleNamespace(
        attempt=ATTEMPT, get_progress=lambda: BundleProgressed(ATTEMPT, 0.5, 700, count(1))
    )
    told = process.progress(running)
    assert told.metrics == count(7)


def test_section_process_is_same_object_per_process(process: Any) -> None:
    assert get_section_process(process) is get_section_process(process)
    assert get_section_process(process) is not get_section_process(Process())  # type: ignore[arg-type]


def test_section_process_sends_messages_and_warnings_to_server(process: Any) -> None:
    host = SectionProcess(process)
    refusal = SectionRefusal(ATTEMPT, "it waits for long")
    host.report_end(refusal)
    host.log_warning("a task failed")
    assert process.sent == [refusal]
    assert [record.message for record in process.logged] == ["a task failed"]
