"""Heartbeats of a worker process, by which the server sees that the process can run Python code."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path

from beam_runner_model.threads import start_essential_thread

from beam_runner_runtime.channel.messages import Heartbeat
from beam_runner_runtime.channel.vitals import LivenessWriter
from beam_runner_runtime.shutdown.limits import LIMITS


def start_heartbeat(
    folder: Path, send: Callable[[Heartbeat], None], now: Callable[[], Heartbeat]
) -> LivenessWriter:
    """Starts the heartbeat thread of the process.

    The thread writes each heartbeat to a file in the folder of the process, and sends some of the
    heartbeats with ``send``. The periods are `beat_seconds` and `beat_message_seconds` of `LIMITS`.

    Args:
        now: function that returns the current activity of the process.

    Returns:
        the writer of the file, which also records the current stage.
    """
    vitals = LivenessWriter(folder)

    per_message = round(LIMITS.beat_message_seconds / LIMITS.beat_seconds)

    def send_heartbeats() -> None:
        for number in itertools.count():
            vitals.count_heartbeat()
            if number % per_message == 0:
                send(now())
            time.sleep(LIMITS.beat_seconds)

    start_essential_thread(send_heartbeats, "heart")
    return vitals
