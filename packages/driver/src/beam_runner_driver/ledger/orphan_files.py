"""Deletion of orphan files: uncommitted files in the job's folder, which failed attempts, lost
Spark tasks and lost processes wrote.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Iterable

from beam_runner_runtime.channel.attempts import Attempt
from beam_runner_runtime.channel.messages import WorkerHello

from beam_runner_driver.ledger.settings import JobSettings

QUIET_SECONDS = 30.0
"""Seconds before the deletion. After this time, a failed attempt that lost its connection to the
server has stopped writing.
"""


class OrphanFiles:
    """Queue of files and folders that will be deleted, because no commit refers to them. Stays
    empty without failures.

    Args:
        settings: settings of the job, with its folder and the names of its files.
    """

    def __init__(self, settings: JobSettings) -> None:
        self._files = settings.files
        self._prefix = settings.file_prefix
        self._due: deque[tuple[float, str]] = deque()
        self._folders: deque[tuple[float, str]] = deque()
        if settings.earlier_files:
            self._schedule_pattern(settings.earlier_files)

    def schedule_attempt_files(self, attempt: Attempt) -> None:
        """Schedules the deletion of the files of a failed attempt at a bundle."""
        self._schedule_files(rf"(-loop\d+)?-{attempt.bundle}-{attempt.attempt}")

    def schedule_section_files(self, attempt: Attempt) -> None:
        """Schedules the deletion of files that a committed section (Spark job) wrote, and that the
        commit doesn't refer to.

        Such files exist because Spark can run a task of a section more than once. The ledger must
        apply the commit before the deletion.
        """
        self._schedule_files(f"-{attempt.bundle}-{attempt.attempt}")

    def schedule_loop_files(self, loop: int) -> None:
        """Schedules the deletion of uncommitted files, after the scheduler loop in a worker process
        failed.
        """
        self._schedule_files(f"-loop{loop}")

    def schedule_process_folder(self, hello: WorkerHello) -> None:
        """Schedules the deletion of the folder of an exited or lost worker process."""
        self._folders.append((time.monotonic() + QUIET_SECONDS, hello.folder))

    def delete_due_files(self, needed: Callable[[], Iterable[str]]) -> None:
        """Deletes the scheduled files whose delay is over, except the ``needed`` files.

        A scheduled file can be needed, because a lost loop can have committed some of its files.
        """
        now = time.monotonic()
        while self._folders and self._folders[0][0] <= now:
            self._files.delete_process_folder(self._folders.popleft()[1])
        names: list[str] = []
        while self._due and self._due[0][0] <= now:
            names.append(self._due.popleft()[1])
        if not names:
            return
        pattern = re.compile("|".join(names))
        self._files.delete_matching_files(pattern, needed())

    def _schedule_files(self, name: str) -> None:
        self._schedule_pattern(rf"{self._prefix}{name}([-.].*)?")

    def _schedule_pattern(self, pattern: str) -> None:
        self._due.append((time.monotonic() + QUIET_SECONDS, pattern))
