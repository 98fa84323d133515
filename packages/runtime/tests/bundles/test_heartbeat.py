from __future__ import annotations

import queue
from pathlib import Path

from waiting import wait_until

from beam_runner_runtime.bundles.heartbeat import start_heart
from beam_runner_runtime.bundles.started_bundles import BegunBundles
from beam_runner_runtime.channel.messages import Beat, Doing
from beam_runner_runtime.channel.vitals import read_vitals


def test_heart_sends_beats_and_updates_vitals(tmp_path: Path) -> None:
    sent: queue.SimpleQueue[Beat] = queue.SimpleQueue()
    begun = BegunBundles()
    begun.note("stage-1")
    doing = [*[Doing.LOOP] * 100, Doing.BUNDLE, Doing.IDLE]

    def now() -> Beat:
        return Beat(doing.pop(), begun.take_untold())

    start_heart(tmp_path, sent.put, now).works_on("stage-1")
    first, second = (sent.get(timeout=60) for _ in range(2))
    assert (first, second) == (Beat(Doing.IDLE, (("stage-1", 1),)), Beat(Doing.BUNDLE))
    wait_until(lambda: (vitals := read_vitals(tmp_path)) is not None and vitals.beats >= 4)
    vitals = read_vitals(tmp_path)
    assert vitals is not None
    assert vitals.stage == "stage-1"
