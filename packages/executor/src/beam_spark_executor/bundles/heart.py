"""Has the server know that a worker process lives, for as long as any of its Python code can run."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path

from beam_runner_worker.threads import start_essential

from beam_spark_executor.channel.messages import Beat, Doing
from beam_spark_executor.channel.vitals import VitalsWriter

BEAT_SECONDS = 0.5
_BEATS_PER_MESSAGE = 4


def start_heart(
    folder: Path, send: Callable[[Beat], None], doing: Callable[[], Doing]
) -> VitalsWriter:
    """Has a thread beat from now on: in the process's own folder, and every two seconds by ``send``.

    Returns:
        where to note what the process works on.
    """
    vitals = VitalsWriter(folder)

    def beat() -> None:
        for number in itertools.count():
            vitals.beat()
            if number % _BEATS_PER_MESSAGE == 0:
                send(Beat(doing()))
            time.sleep(BEAT_SECONDS)

    start_essential(beat, "heart")
    return vitals
