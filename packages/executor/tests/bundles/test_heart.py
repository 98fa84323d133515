from __future__ import annotations

import queue
import time
from pathlib import Path

from beam_spark_executor.bundles.heart import start_heart
from beam_spark_executor.channel.messages import Beat, Doing
from beam_spark_executor.channel.vitals import read_vitals


def test_it_beats_and_says_so(tmp_path: Path) -> None:
    sent: queue.SimpleQueue[Beat] = queue.SimpleQueue()
    doing = [*[Doing.LOOP] * 100, Doing.BUNDLE, Doing.IDLE]
    start_heart(tmp_path, sent.put, lambda: doing.pop()).works_on("stage-1")
    assert [sent.get(timeout=60) for _ in range(2)] == [Beat(Doing.IDLE), Beat(Doing.BUNDLE)]
    deadline = time.monotonic() + 60
    while (vitals := read_vitals(tmp_path)) is None or vitals.beats < 4:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert vitals.stage == "stage-1"
