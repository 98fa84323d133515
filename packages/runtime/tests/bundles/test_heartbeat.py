from __future__ import annotations

import queue
from pathlib import Path

from waiting import wait_until

from beam_runner_runtime.bundles.heartbeat import start_heartbeat
from beam_runner_runtime.bundles.started_bundles import StartedBundleCounts
from beam_runner_runtime.channel.messages import Heartbeat, WorkerActivity
from beam_runner_runtime.channel.vitals import read_liveness


def test_heartbeat_thread_sends_heartbeats_and_updates_liveness_file(tmp_path: Path) -> None:
    sent: queue.SimpleQueue[Heartbeat] = queue.SimpleQueue()
    begun = StartedBundleCounts()
    begun.count_started_bundle("stage-1")
    doing = [*[WorkerActivity.LOOP] * 100, WorkerActivity.BUNDLE, WorkerActivity.IDLE]

    def now() -> Heartbeat:
        return Heartbeat(doing.pop(), begun.take_unreported_counts())

    start_heartbeat(tmp_path, sent.put, now).record_stage("stage-1")
    first, second = (sent.get(timeout=60) for _ in range(2))
    assert (first, second) == (
        Heartbeat(WorkerActivity.IDLE, (("stage-1", 1),)),
        Heartbeat(WorkerActivity.BUNDLE),
    )
    wait_until(lambda: (vitals := read_liveness(tmp_path)) is not None and vitals.beats >= 4)
    vitals = read_liveness(tmp_path)
    assert vitals is not None
    assert vitals.stage == "stage-1"
