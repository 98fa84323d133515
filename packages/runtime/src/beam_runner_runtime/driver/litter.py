"""What failed attempts, lost tasks and lost processes have left in the job's folder: removed once nobody writes on."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Iterable

from beam_runner_runtime.channel.attempts import Attempt
from beam_runner_runtime.channel.messages import Hello
from beam_runner_runtime.driver.job_folder import JobFolder

QUIET_SECONDS = 30.0
"""An attempt that was cut off from the server has written its last by then."""


class Litter:
    """Files that no commit will ever name. Costs nothing while nothing fails.

    Args:
        files: the job's.
        epoch: of the server: files of earlier ones were looked through when it began.
    """

    def __init__(self, files: JobFolder, epoch: int) -> None:
        self._files = files
        self._epoch = epoch
        self._due: deque[tuple[float, str]] = deque()
        self._folders: deque[tuple[float, str]] = deque()

    def attempt_failed(self, attempt: Attempt) -> None:
        """An attempt at a bundle came to nothing, in a lane of its own or left over by a loop."""
        self._add(rf"(-loop\d+)?-{attempt.bundle}-{attempt.attempt}")

    def section_committed(self, attempt: Attempt) -> None:
        """A section was committed, of which Spark may have run some tasks more than once; the ledger hears of it before anything is removed."""
        self._add(f"-{attempt.bundle}-{attempt.attempt}")

    def loop_lost(self, loop: int) -> None:
        """A loop inside a task broke off."""
        self._add(f"-loop{loop}")

    def process_lost(self, hello: Hello) -> None:
        """A worker process has ended, in whatever way."""
        self._folders.append((time.monotonic() + QUIET_SECONDS, hello.folder))

    def remove(self, needed: Callable[[], Iterable[str]]) -> None:
        """Removes what is old enough, but none of the files that are ``needed``.

        A loop that was lost may have had a part of what it did committed before.
        """
        now = time.monotonic()
        while self._folders and self._folders[0][0] <= now:
            self._files.remove_process(self._folders.popleft()[1])
        names: list[str] = []
        while self._due and self._due[0][0] <= now:
            names.append(self._due.popleft()[1])
        if not names:
            return
        pattern = re.compile(rf"{self._epoch}({'|'.join(names)})([-.].*)?")
        self._files.remove_like(pattern, needed())

    def _add(self, name: str) -> None:
        self._due.append((time.monotonic() + QUIET_SECONDS, name))
