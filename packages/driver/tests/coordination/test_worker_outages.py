from __future__ import annotations

from pathlib import Path
from typing import Any

from beam_runner_runtime.channel.messages import NeighbourWaitStatus
from small_jobs import rig_of

from beam_runner_driver.coordination.worker_outages import WorkerOutages
from beam_runner_driver.reports.failure_reports import OutageMessages

STORE, DISK = "the data store at s3://b", "the disk of /data"
FIRST: Any = "one process"
SECOND: Any = "another process"


def list_outages(outages: WorkerOutages) -> list[tuple[str, str, float]]:
    return [(one.away.neighbour, one.away.reason, one.since) for one in outages.list_outages()]


def test_worker_outages_list_each_unavailable_service_once_from_first_wait() -> None:
    outages = WorkerOutages()
    outages.handle_wait_message(FIRST, NeighbourWaitStatus(STORE, "refused"), 10.0)
    outages.handle_wait_message(SECOND, NeighbourWaitStatus(STORE, "no answer"), 12.0)
    assert list_outages(outages) == [(STORE, "refused", 10.0)]
    outages.handle_wait_message(FIRST, NeighbourWaitStatus(STORE, "no answer"), 15.0)
    assert list_outages(outages) == [(STORE, "no answer", 10.0)]
    outages.handle_wait_message(FIRST, NeighbourWaitStatus(DISK, "full"), 20.0)
    assert list_outages(outages) == [(STORE, "no answer", 12.0), (DISK, "full", 20.0)]
    outages.handle_wait_message(FIRST, NeighbourWaitStatus(), 21.0)
    outages.remove_process(SECOND)
    outages.remove_process(SECOND)
    assert list_outages(outages) == []


def test_outage_start_and_end_messages_are_logged_once() -> None:
    outages, messages = WorkerOutages(), OutageMessages()
    outages.handle_wait_message(FIRST, NeighbourWaitStatus(STORE, "refused"), 10.0)
    (text,) = messages.list_new_messages(outages.list_outages(), 10.5)
    assert text.startswith(f"the job waits for {STORE}, which has been unavailable for ")
    assert text.endswith(": refused")
    outages.handle_wait_message(FIRST, NeighbourWaitStatus(STORE, "no answer"), 40.0)
    assert messages.list_new_messages(outages.list_outages(), 41.0) == []
    outages.handle_wait_message(FIRST, NeighbourWaitStatus(), 70.0)
    assert messages.list_new_messages(outages.list_outages(), 70.0) == [
        f"the job no longer waits for {STORE}, after 60 s"
    ]
    assert messages.list_new_messages(outages.list_outages(), 71.0) == []


def test_outage_ends_if_the_waiting_process_is_lost(tmp_path: Path) -> None:
    rig = rig_of(tmp_path)
    rig.begin()
    rig.open_lanes()
    worker = rig.workers[0]
    rig.heard(worker, NeighbourWaitStatus(STORE, "refused"))
    (outage,) = rig.coordinator.outages.list_outages()
    assert outage.away.neighbour == STORE
    rig.lose(worker)
    assert rig.coordinator.outages.list_outages() == ()
    rig.stop()
