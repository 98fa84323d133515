"""Bundle finalization: stores the callbacks that DoFns register, and calls them after the commit of the bundle."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import attrs
from apache_beam.runners.worker import operations
from apache_beam.transforms import core
from beam_runner_worker.awaiting_commit import CommitData

from beam_runner_embedded.runs import is_user_code_error

_LOGGER = logging.getLogger(__name__)
_one_at_a_time = threading.Lock()


@attrs.frozen
class FinalizationCallback:
    """Finalization callback that a DoFn registered.

    Attributes:
        transform: the full name of the transform that registered the callback.
        call: the registered function.
    """

    transform: str
    call: Callable[[], object]


def take_finalization_callbacks(ops: Iterable[operations.Operation]) -> list[FinalizationCallback]:
    """Returns the finalization callbacks that DoFns registered during the last bundle, in order."""
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
    """Collects the callbacks of operations that are finalized while this context is active.

    Beam's compiled code hides the object with the callbacks. But the class of that object is in
    Python, so this function replaces its method.
    """
    collected: list[Callable[[], object]] = []

    def collect_registered(registered: core._BundleFinalizerParam) -> None:
        collected.extend(registered._callbacks)

    with _one_at_a_time:
        usual = core._BundleFinalizerParam.finalize_bundle
        core._BundleFinalizerParam.finalize_bundle = collect_registered
        try:
            yield collected
        finally:
            core._BundleFinalizerParam.finalize_bundle = usual


class StageFinalizers:
    """Finalization callbacks of one stage, by bundle. Thread-safe.

    Args:
        clock: returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._waiting: CommitData[str, list[FinalizationCallback]] = CommitData(
            _warn_of_dropped_callbacks, clock
        )
        self.store_bundle_data = self._waiting.store_bundle_data

    def run_callbacks(self, bundle_id: str) -> None:
        """Calls the finalization callbacks of a bundle, except expired callbacks. Logs the errors
        of callbacks.
        """
        for callback in self._waiting.take_bundle_data(bundle_id) or ():
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
