"""Has the server know that a worker process lives, for as long as any of its Python code can run."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path

from beam_runner_model.threads import start_essential

from beam_runner_runtime.channel.messages import Beat
from beam_runner_runtime.channel.vitals import VitalsWriter
from beam_runner_runtime.shutdown.limits import LIMITS


def start_heart(
    folder: Path, send: Callable[[Beat], None], now: Callable[[], Beat]
) -> VitalsWriter:
    """Has a thread beat from now on: in the process's own folder, and every two seconds by ``send``.

    Args:
        folder: the process's own.
        send: sends what is told.
        now: returns what the process does at this moment.

    Returns:
        where to note what the process works on.
    """
    vitals = VitalsWriter(folder)

    per_message = round(LIMITS.beat_message_seconds / LIMITS.beat_seconds)

    def beat() -> None:
        for number in itertools.count():
            vitals.beat()
            if number % per_message == 0:
                send(now())
            time.sleep(LIMITS.beat_seconds)

    start_essential(beat, "heart")
    return vitals
