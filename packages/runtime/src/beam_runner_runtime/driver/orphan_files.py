"""Deletion of orphan files in the job's folder, which failed attempts, lost tasks and lost processes left behind."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Iterable

from beam_runner_runtime.channel.attempts import Attempt
from beam_runner_runtime.channel.messages import WorkerHello
from beam_runner_runtime.driver.job_folder import JobFolder

QUIET_SECONDS = 30.0
"""Delay before the deletion. By then, an attempt that lost its connection to the server has stopped writing."""


class OrphanFiles:
    """Orphan files that no commit will reference. Costs nothing without failures.

    Args:
        files: files of the job.
        epoch: epoch of the server, which has already deleted the orphan files of earlier epochs at
            its start.
    """

    def __init__(self, files: JobFolder, epoch: int) -> None:
        self._files = files
        self._epoch = epoch
        self._due: deque[tuple[float, str]] = deque()
        self._folders: deque[tuple[float, str]] = deque()

    def schedule_attempt_files(self, attempt: Attempt) -> None:
        """Schedules the files of a failed attempt, which ran in a lane or in a loop."""
        self._schedule_files(rf"(-loop\d+)?-{attempt.bundle}-{attempt.attempt}")

    def schedule_section_files(self, attempt: Attempt) -> None:
        """Schedules the deletion of the unused files of a committed section.

        Such files exist because Spark can run a task more than once. The ledger must apply the
        commit before the deletion.
        """
        self._schedule_files(f"-{attempt.bundle}-{attempt.attempt}")

    def schedule_loop_files(self, loop: int) -> None:
        """Schedules the uncommitted files of a failed loop inside a task."""
        self._schedule_files(f"-loop{loop}")

    def schedule_process_folder(self, hello: WorkerHello) -> None:
        """Schedules the folder of an exited or lost worker process."""
        self._folders.append((time.monotonic() + QUIET_SECONDS, hello.folder))

    def delete_due_files(self, needed: Callable[[], Iterable[str]]) -> None:
        """Deletes the scheduled files whose delay is over, except the ``needed`` files.

        The needed files include scheduled files that a lost loop had already committed.
        """
        now = time.monotonic()
        while self._folders and self._folders[0][0] <= now:
            self._files.delete_process_folder(self._folders.popleft()[1])
        names: list[str] = []
        while self._due and self._due[0][0] <= now:
            names.append(self._due.popleft()[1])
        if not names:
            return
        pattern = re.compile(rf"{self._epoch}({'|'.join(names)})([-.].*)?")
        self._files.delete_matching_files(pattern, needed())

    def _schedule_files(self, name: str) -> None:
        self._due.append((time.monotonic() + QUIET_SECONDS, name))
