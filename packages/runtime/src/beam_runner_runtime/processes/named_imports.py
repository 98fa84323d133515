"""Modules of users that workers find imported, because a server was started with their names.

What the functions of a job import is imported anew by each worker process: nothing for most libraries, seconds
for some. ``BEAM_RUNNER_IMPORTS=tensorflow,sklearn.ensemble`` in the environment has them imported once, by the
process that workers are forked from. A fork sees nothing of the jobs before it, as ever.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import select
import signal
import sys
import threading
from collections.abc import Iterator

VARIABLE = "BEAM_RUNNER_IMPORTS"
"""Modules, separated by commas, that are imported once before worker processes are forked; for the server and executors."""
_TRIAL_SECONDS = 60
_TOLD_BYTES = 4096
_GOOD = "good"


def import_named() -> None:
    """Imports what the environment names, but for what can't be imported or must not be forked: that is told.

    To be called in a process of one thread.
    """
    for name in _names():
        told = _try(name)
        if told == _GOOD:
            told = _import(name)
        if told != _GOOD:
            sys.stderr.write(f"{name} of {VARIABLE} is not imported ahead: {told}\n")


def _names() -> Iterator[str]:
    for name in os.environ.get(VARIABLE, "").split(","):
        if name.strip():
            yield name.strip()


def _import(name: str) -> str:
    """Imports a module; what is wrong with it, or that it is good."""
    try:
        importlib.import_module(name)
    except BaseException as error:
        return repr(error)
    threads = ", ".join(one.name for one in threading.enumerate()[1:])
    return f"it starts threads, which forks do not have ({threads})" if threads else _GOOD


def _try(name: str) -> str:
    """What `_import` says in a process that ends then: this one is to stay fit to be forked."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, _import(name).encode()[:_TOLD_BYTES])
        os._exit(0)
    os.close(writer)
    with open(reader, "rb", buffering=0) as answer:
        is_answered = select.select([answer], [], [], _TRIAL_SECONDS)[0]
        told = answer.read(_TOLD_BYTES).decode(errors="replace") if is_answered else ""
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return told or (
        "the process that tried it crashed" if is_answered else f"it takes over {_TRIAL_SECONDS} s"
    )
