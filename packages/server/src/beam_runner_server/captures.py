"""Capture of the committed state of a running job."""

from __future__ import annotations

from concurrent.futures import Future

from beam_runner_driver.job.job import RunningJob
from beam_runner_driver.job.job_events import SavepointRequested
from beam_runner_driver.updates.savepoint_files import SavepointContents
from beam_runner_jobservices.errors import NotReady

from beam_runner_server.job_answers import wait_for_answer

_CAPTURE_SECONDS = 60.0


def capture_running_job(running: RunningJob) -> SavepointContents | None:
    """Returns the committed state of a job; None if the job has ended. The files of the state stay
    until the caller releases them.

    Raises:
        NotReady: The job doesn't answer in time.
    """
    answer: Future[SavepointContents] = Future()
    running.add_request(SavepointRequested(answer))
    try:
        return wait_for_answer(running, answer, _CAPTURE_SECONDS)
    except TimeoutError as error:
        answer.add_done_callback(lambda late: late.result().release_files())
        raise NotReady(
            f"job {running.job_id} didn't return its state within {_CAPTURE_SECONDS:.0f} s"
        ) from error
