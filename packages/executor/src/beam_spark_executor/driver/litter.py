"""What failed attempts and lost processes have left in the job's folder: removed once nobody writes on."""

from __future__ import annotations

import re
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

from beam_spark_executor.channel.messages import Attempt, Hello

QUIET_SECONDS = 30.0
"""An attempt that was cut off from the server has written its last by then."""


class Litter:
    """Files that no commit will ever name. Costs nothing while nothing fails.

    Args:
        folder: the job's.
        epoch: of the server: files of earlier ones were looked through when it began.
    """

    def __init__(self, folder: Path, epoch: int) -> None:
        self._folder = folder
        self._epoch = epoch
        self._due: deque[tuple[float, str]] = deque()
        self._folders: deque[tuple[float, str]] = deque()

    def attempt_failed(self, attempt: Attempt) -> None:
        """An attempt at a bundle came to nothing, in a lane of its own or left over by a loop."""
        self._add(rf"(-loop\d+)?-{attempt.bundle}-{attempt.attempt}")

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
            shutil.rmtree(self._folder / self._folders.popleft()[1], ignore_errors=True)
        names: list[str] = []
        while self._due and self._due[0][0] <= now:
            names.append(self._due.popleft()[1])
        if not names:
            return
        pattern = re.compile(rf"{self._epoch}({'|'.join(names)})([-.].*)?")
        kept = set(needed())
        for path in self._folder.iterdir():
            if pattern.fullmatch(path.name) and path.name not in kept and path.is_file():
                path.unlink(missing_ok=True)

    def _add(self, name: str) -> None:
        self._due.append((time.monotonic() + QUIET_SECONDS, name))
