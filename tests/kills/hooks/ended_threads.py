"""End of chosen threads of a tested server's processes.

A file ``end <name>`` in the folder of the crash points ends the thread with this name by an error, in the
first process that sees the file. The process reports its id by a file ``<name>.hit``. Threads of
jobs have the name ``job``.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

_LOOK_SECONDS = 0.05
_AGAIN_SECONDS = 15.0
_threads: dict[str, threading.Thread] = {}
_watched_by: list[int] = []


class EndedByTest(Exception):
    """Error that ends a thread."""


def patch_threads(module: ModuleType, folder: str) -> None:
    """Registers the threads of this process by their names."""
    start: Callable[..., threading.Thread] = module._start_thread

    def start_and_register(run: Callable[[], None], name: str) -> threading.Thread:
        thread = start(run, name)
        _threads["job" if name.startswith("job-") else name] = thread
        if os.getpid() not in _watched_by:  # Processes are forked, without threads.
            _watched_by.append(os.getpid())
            threading.Thread(target=_watch_orders, args=(folder,), daemon=True).start()
        return thread

    module._start_thread = start_and_register  # type: ignore[attr-defined]


def _watch_orders(folder: str) -> None:
    while True:
        for name, thread in list(_threads.items()):
            path = os.path.join(folder, f"end-{name}")
            if thread.is_alive() and os.path.exists(path):
                _end_thread(thread, path)
        time.sleep(_LOOK_SECONDS)


def _end_thread(thread: threading.Thread, path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    with open(f"{path}.hit", "w") as file:
        file.write(str(os.getpid()))
    error: Any = ctypes.py_object(EndedByTest)
    while thread.is_alive():
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), error)
        # The thread can survive an error. But don't interrupt its handling of the first error.
        thread.join(_AGAIN_SECONDS)
