"""Creation of Spark's context in Java while the server imports Beam.

The server must fork its workers' template before it has threads and before it reads the secret of
Java's gateway. So another forked process connects to Java, has Java create the context, and exits.
The context stays in Java, and the server uses it later.
"""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Callable, Sequence

from beam_runner_runtime.processes.forked_process import ForkedProcess

_LOOK_SECONDS = 0.1
_EXIT_SECONDS = 5.0


class EarlyContext:
    """Process that creates the context. The server must have one thread.

    Args:
        create: connects to Java and creates the context. Runs in the forked process; an exception
            has the error for the user.
        not_its: see `ForkedProcess`.
    """

    def __init__(self, create: Callable[[], object], not_its: Sequence[int]) -> None:
        self._process = ForkedProcess(lambda: _create_and_report(create), not_its)

    def wait(self, is_java_alive: Callable[[], bool], seconds: float) -> str | None:
        """Waits until Java has created the context.

        Returns:
            The error; empty if the context exists, and None if nothing is known, because the
            process or Java has exited, or the limit is over.
        """
        deadline = time.monotonic() + seconds
        answers = self._process.stdout
        while is_java_alive() and time.monotonic() < deadline:
            if select.select([answers], [], [], _LOOK_SECONDS)[0]:
                line = answers.readline()
                return str(json.loads(line)) if line else None
        return None

    def reap(self) -> None:
        """Waits for the exit of the process, which follows its answer."""
        self._process.wait(_EXIT_SECONDS)

    def kill(self) -> None:
        """Ends the process."""
        self._process.terminate()


def _create_and_report(create: Callable[[], object]) -> None:
    error = ""
    try:
        create()
    except Exception as failure:
        error = str(failure) or type(failure).__name__
    os.write(1, f"{json.dumps(error)}\n".encode())
