"""Run calls of clients, and the time limit of their answers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from concurrent.futures import Future

import attrs
from beam_runner_model.errors import Unavailable

_ANSWER_SECONDS = 60.0
"""Time limit of a Run call. It is longer than the limits of storing a job and of starting Spark."""


@attrs.frozen
class RunRequest:
    """Run call of a client. `answer` becomes the job's id or an error; repeated calls get the same answer."""

    preparation_id: str
    job_id: str
    answer: Future[str] = attrs.field(factory=Future)

    def wait_for_answer(self, is_recorded: Callable[[], bool]) -> str:
        """Returns the job's id when the job has started, or after 60 s if the job is recorded.

        A recorded job starts later, when the store of the job list is available again.

        Raises:
            Unavailable: the job wasn't recorded within 60 s.
            RunnerError: the error that is the answer.
        """
        try:
            refusal = self.answer.exception(_ANSWER_SECONDS)
        except TimeoutError:
            if is_recorded():
                return self.job_id
            raise Unavailable(
                f"The job can't be recorded within {_ANSWER_SECONDS:.0f} s: run the job again"
            ) from None
        if refusal is not None:
            raise copy.copy(refusal)
        return self.answer.result()
