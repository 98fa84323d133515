"""A process in which many threads record jobs endlessly: ``job_file_to_kill.py FOLDER``.

The process prints each acknowledged job.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
from pathlib import Path

from beam_runner_model.jobs import JobSpec, JobState, StateEvent

from beam_runner_jobservices.job_file import JobFile
from beam_runner_jobservices.recorder import UnfinishedJob

THREADS = 8


def record(file: JobFile, thread: int) -> None:
    for number in itertools.count():
        job_id = f"job-{thread}-{number}"
        spec = JobSpec(job_id, "name", b"pipeline", {}, "{}", {}, "")
        file.add_job(UnfinishedJob(spec, job_id, "owner", (StateEvent(JobState.STOPPED, 1.0),)))
        os.write(1, f"{job_id} STOPPED\n".encode())
        file.add_state(job_id, StateEvent(JobState.STARTING, 2.0))
        os.write(1, f"{job_id} STARTING\n".encode())


def main(folder: Path) -> None:
    """Records jobs until the process is killed."""
    file = JobFile(folder)
    for thread in range(THREADS):
        threading.Thread(target=record, args=(file, thread), daemon=True).start()
    threading.Event().wait()


main(Path(sys.argv[1]))
