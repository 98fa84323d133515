"""Crash points for the processes of a tested server. On their ``PYTHONPATH``, this module patches
their imports.

``BEAM_KILL_POINTS`` is a folder. A process that passes a point with a file of this name takes the
file and runs the action in the file. So each file applies to one process, once. The process reports
the action by a file ``<name>.hit``.

| word | action of the process |
|---|---|
| ``kill`` | exits by SIGKILL |
| ``stop`` | stops by SIGSTOP, and continues after SIGCONT |
| ``cut`` | loses its connection to the server without notice, and continues |
| ``raise`` | fails to write, as with a full disk |
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from ended_threads import patch_threads

_FOLDER = os.environ.get("BEAM_KILL_POINTS", "")
_ZOMBIE_SECONDS = 5.0
_REPLY_SECONDS = 0.2

_cut: list[Callable[[], None]] = []
_zombie = threading.Event()


def at(point: str) -> None:
    """Passes a point."""
    path = os.path.join(_FOLDER, point.replace(" ", "-"))
    if _zombie.is_set():
        return
    try:
        with open(path) as file:
            word = file.read().strip()
        os.unlink(path)
    except FileNotFoundError:
        return
    with open(f"{path}.hit", "w") as file:
        file.write(f"{os.getpid()} {word}")
    if word == "cut":
        _zombie.set()
        for cut in _cut:
            cut()
    elif word == "raise":
        raise OSError("no space left, says the test")
    else:
        os.kill(os.getpid(), signal.SIGSTOP if word == "stop" else signal.SIGKILL)


def around(owner: Any, name: str, before: str | None, after: str | None) -> None:
    """Adds a point before a method, and a point after its return."""
    real = getattr(owner, name)

    def wrapped(*arguments: Any, **more: Any) -> Any:
        if before is not None:
            at(before)
        result = real(*arguments, **more)
        if after is not None:
            at(after)
        return result

    setattr(owner, name, wrapped)


def patch_coordinator(module: ModuleType) -> None:
    class JobDriver(module.JobDriver):  # type: ignore[name-defined, misc]
        """The server's driver of jobs. A scheduler loop in a worker process has a driver without
        crash points.
        """

    module.JobDriver = JobDriver  # type: ignore[attr-defined]
    around(JobDriver, "execute_commands", "before commands", "after commands")
    around(module.JobCoordinator, "resume_job", "before begin", "after begin")
    commit = module.JobCoordinator.record_journal_entries

    def record(self: Any, entries: Any) -> Any:
        if any(getattr(getattr(entry, "done", None), "finalize", False) for entry in entries):
            at("before callbacks are due")
            commands = commit(self, entries)
            at("after callbacks are due")
            return commands
        if any(getattr(entry, "quarantined", ()) for entry in entries):
            at("before quarantine")
            commands = commit(self, entries)
            at("after quarantine")
            return commands
        if any(type(entry).__name__ == "ReplayedUnits" for entry in entries):
            at("before replay")
            commands = commit(self, entries)
            at("after replay")
            return commands
        return commit(self, entries)

    module.JobCoordinator.record_journal_entries = record


def patch_patient_journal(module: ModuleType) -> None:
    module._ENTRIES_PER_SNAPSHOT = 10  # type: ignore[attr-defined]


def patch_ledger(module: ModuleType) -> None:
    around(module.JobLedger, "apply_journal_entry", None, "after apply")
    around(module.JobLedger, "take_unneeded_files", "before files go", None)


def patch_quarantine_files(module: ModuleType) -> None:
    around(module.QuarantineFiles, "_queue_file", "before quarantine file", None)
    around(module.QuarantineFiles, "_pop_written_files", None, "after quarantine file")


def patch_journal(module: ModuleType) -> None:
    around(module.Journal, "append_entries", "before append", "after append")
    around(module.Journal, "store_snapshot", "before snapshot", "after snapshot")
    around(module.Journal, "read_committed_data", None, "in recovery")
    around(module.Journal, "delete_journal", "before delete", "after delete")
    around(module.Journal, "replace_by_successor", None, "after succession")


def patch_store(module: ModuleType) -> None:
    """Adds a point at which the writes of a transaction exist, but are not committed."""

    class DatabaseSeal(module.DatabaseSeal):  # type: ignore[name-defined, misc]
        @contextmanager
        def begin_sealed_transaction(self, connection: Any) -> Iterator[Any]:
            with super().begin_sealed_transaction(connection) as change:
                yield change
                at("in transaction")

    module.DatabaseSeal = DatabaseSeal  # type: ignore[attr-defined]


def patch_job_plans(module: ModuleType) -> None:
    around(module.JobPlanner, "plan_job", "before plan", "after plan")


def patch_updates(module: ModuleType) -> None:
    around(module.JobUpdateManager, "begin_update", "before update", "after update")
    around(module.JobUpdateManager, "_handle_answer", "before answer", "after answer")


def patch_switch(module: ModuleType) -> None:
    around(module.JobSwitch, "_begin_update", None, "after hold")
    around(module.JobSwitch, "_decide_on_update", "before decision", "after decision")
    around(module.JobSwitch, "commit", "before succession", None)


def patch_job_folder(module: ModuleType) -> None:
    around(module.JobFolder, "delete_leftovers", "before sweep", "after sweep")


def patch_job(module: ModuleType) -> None:
    around(module, "report_end", "before end", "after end")


def patch_written(module: ModuleType) -> None:
    module.INLINE_BYTES = 200  # type: ignore[attr-defined]
    around(module.RowBufferWriter, "close", "before files", "after files")


def patch_stores(module: ModuleType) -> None:
    around(module.MergingStore, "write_commit", "before state", "after state")


def patch_bundle(module: ModuleType) -> None:
    around(module.LocalBundle, "split", "before split", "after split")


def patch_loop(module: ModuleType) -> None:
    around(module.TaskLoop, "_attach_state", "before loop state", "after loop state")
    around(module.TaskLoop, "_return_scheduler", None, "after loop reply")


def patch_process(module: ModuleType) -> None:
    process = module.WorkerProcess
    real_init, real_answer = process.__init__, process._send_reply
    real_gone = process._handle_lost_server

    def init(self: Any, *arguments: Any) -> None:
        _cut[:] = [lambda: cut(self)]
        real_init(self, *arguments)

    def answer(self: Any, reply: Any) -> None:
        at("before reply")
        real_answer(self, reply)
        if os.path.exists(os.path.join(_FOLDER, "after-reply")):
            time.sleep(_REPLY_SECONDS)  # it is sent by another thread
            at("after reply")

    def cut(self: Any) -> None:
        self.is_cut = True
        self.channel._channel.close()

    def gone(self: Any) -> None:
        if getattr(self, "is_cut", False):
            timer = threading.Timer(_ZOMBIE_SECONDS, real_gone, (self,))
            timer.daemon = True
            timer.start()
        else:
            real_gone(self)

    process.__init__ = init
    process._send_reply = answer
    process._handle_lost_server = gone
    around(process, "run_bundle", "before bundle", "after bundle")


_PATCHES: dict[str, Callable[[ModuleType], None]] = {
    "beam_runner_data.rows.written": patch_written,
    "beam_runner_data.state.shard_stores": patch_stores,
    "beam_runner_runtime.bundles.bundle": patch_bundle,
    "beam_runner_runtime.bundles.loop": patch_loop,
    "beam_runner_runtime.bundles.process": patch_process,
    "beam_runner_driver.coordination.coordinator": patch_coordinator,
    "beam_runner_driver.ledger.retrying_journal": patch_patient_journal,
    "beam_runner_driver.job.job": patch_job,
    "beam_runner_driver.ledger.job_folder": patch_job_folder,
    "beam_runner_driver.ledger.ledger": patch_ledger,
    "beam_runner_driver.quarantine.quarantine_files": patch_quarantine_files,
    "beam_runner_driver.job.switch": patch_switch,
    "beam_runner_server.job_plans": patch_job_plans,
    "beam_runner_server.updates": patch_updates,
    "beam_runner_model.threads": lambda module: patch_threads(module, _FOLDER),
    "beam_runner_storage.journal.journal": patch_journal,
    "beam_runner_storage.journal.store": patch_store,
}


class _Patcher(importlib.abc.MetaPathFinder):
    """Finder of the patched modules, which patches a module after its import."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        patch = _PATCHES.get(name)
        if patch is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        assert spec is not None and spec.loader is not None
        load = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            patch(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


if _FOLDER:
    sys.meta_path.insert(0, _Patcher())
