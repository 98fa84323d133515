"""Heartbeats of a worker process: the server sees that the process lives as long as its Python code can run."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path

from beam_runner_model.threads import start_essential_thread

from beam_runner_runtime.channel.messages import Heartbeat
from beam_runner_runtime.channel.vitals import VitalsWriter
from beam_runner_runtime.shutdown.limits import LIMITS


def start_heartbeat(
    folder: Path, send: Callable[[Heartbeat], None], now: Callable[[], Heartbeat]
) -> VitalsWriter:
    """Starts the heartbeat thread of the process.

    The thread writes heartbeats to the folder of the process, and sends every n-th heartbeat with
    ``send``. The periods are `beat_seconds` and `beat_message_seconds` of `LIMITS`.

    Args:
        folder: folder of the process.
        send: function that sends a heartbeat to the server.
        now: function that returns the current activity of the process.

    Returns:
        the writer that records the current stage of the process.
    """
    vitals = VitalsWriter(folder)

    per_message = round(LIMITS.beat_message_seconds / LIMITS.beat_seconds)

    def beat() -> None:
        for number in itertools.count():
            vitals.count_heartbeat()
            if number % per_message == 0:
                send(now())
            time.sleep(LIMITS.beat_seconds)

    start_essential_thread(beat, "heart")
    return vitals
