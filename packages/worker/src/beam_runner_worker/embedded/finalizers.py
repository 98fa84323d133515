"""Callbacks that DoFns register for the commit of their bundle, stored until the commit or their expiry."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import attrs
from apache_beam.runners.worker import operations
from apache_beam.transforms import core

from beam_runner_worker.awaiting_commit import AwaitingCommit
from beam_runner_worker.embedded.runs import is_user_code_error

_LOGGER = logging.getLogger(__name__)
_one_at_a_time = threading.Lock()


@attrs.frozen
class FinalizationCallback:
    """One callback.

    Attributes:
        transform: the full name of the transform that registered it.
        call: the registered function.
    """

    transform: str
    call: Callable[[], object]


def take_finalization_callbacks(ops: Iterable[operations.Operation]) -> list[FinalizationCallback]:
    """Returns the callbacks that the last bundle has registered, in order."""
    callbacks: list[FinalizationCallback] = []
    with _collect_callbacks() as collected:
        for op in ops:
            op.finalize_bundle()
            step = str(op.name_context.step_name)
            callbacks.extend(FinalizationCallback(step, call) for call in collected)
            collected.clear()
    return callbacks


@contextmanager
def _collect_callbacks() -> Iterator[list[Callable[[], object]]]:
    """Within this context, operations that finalize add their callbacks to the list.

    Beam stores the object with the callbacks inside compiled code, but the object's class is in
    Python.
    """
    collected: list[Callable[[], object]] = []

    def collect(registered: core._BundleFinalizerParam) -> None:
        collected.extend(registered._callbacks)

    with _one_at_a_time:
        usual = core._BundleFinalizerParam.finalize_bundle
        core._BundleFinalizerParam.finalize_bundle = collect
        try:
            yield collected
        finally:
            core._BundleFinalizerParam.finalize_bundle = usual


class StageFinalizers:
    """The callbacks of one stage's bundles, by bundle. Thread-safe.

    Args:
        clock: returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._waiting: AwaitingCommit[str, list[FinalizationCallback]] = AwaitingCommit(
            _warn_of_dropped_callbacks, clock
        )
        self.store_data = self._waiting.store_data

    def run(self, bundle_id: str) -> None:
        """Calls the callbacks of a bundle, unless they have expired; logs their errors."""
        for callback in self._waiting.take_data(bundle_id) or ():
            try:
                callback.call()
            except BaseException as error:
                if not is_user_code_error(error):
                    raise
                _LOGGER.exception(
                    "A finalization callback of %s failed for bundle %s",
                    callback.transform,
                    bundle_id,
                )


def _warn_of_dropped_callbacks(bundle_id: str, callbacks: list[FinalizationCallback]) -> None:
    _LOGGER.warning(
        "Bundle %s was not finalized in time: dropped %d finalization callbacks of %s",
        bundle_id,
        len(callbacks),
        sorted({callback.transform for callback in callbacks}),
    )
