"""Bundles that asked to be told of their commit: where they ran, until they are told."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable

import attrs

from beam_runner_worker._protos import beam_fn_api_pb2
from beam_runner_worker.errors import HarnessError
from beam_runner_worker.fnapi.connection import SdkConnection

_FINALIZE_SECONDS = 30.0
_KEPT_SECONDS = 3600.0
_MOST_KEPT = 1000


@attrs.frozen
class _Waiting:
    connection: SdkConnection
    instruction_ids: tuple[str, ...]
    since: float


class Finalizations:
    """The bundles of one stage whose commit their SDK waits for.

    A bundle is forgotten with its SDK harness, after an hour, or as the oldest of 1000. Whether a
    callback has expired before, the SDK knows.

    Args:
        warn: takes what people should know.
        clock: gives seconds.
    """

    def __init__(
        self, warn: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._warn = warn
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: OrderedDict[str, _Waiting] = OrderedDict()

    def remember(
        self, bundle_id: str, connection: SdkConnection, instruction_ids: Iterable[str]
    ) -> None:
        """A bundle has ended that asked for it; of two with the same id the later one counts.

        Args:
            bundle_id: the host's.
            connection: the SDK harness.
            instruction_ids: of the SDK's bundles in it that asked.
        """
        with self._lock:
            now = self._clock()
            self._waiting.pop(bundle_id, None)
            self._waiting[bundle_id] = _Waiting(connection, tuple(instruction_ids), now)
            for known, waiting in list(self._waiting.items()):
                if (
                    len(self._waiting) > _MOST_KEPT
                    or now - waiting.since > _KEPT_SECONDS
                    or not waiting.connection.usable
                ):
                    del self._waiting[known]

    def finalize(self, bundle_id: str) -> None:
        """Tells the SDK; see :meth:`beam_runner_worker.ports.StageHarness.finalize`.

        Waits for the callbacks, for 30 seconds at most for each of the SDK's bundles.
        """
        with self._lock:
            waiting = self._waiting.pop(bundle_id, None)
        if waiting is None:
            return
        for instruction_id in waiting.instruction_ids:
            try:
                waiting.connection.ask(_request(instruction_id), _FINALIZE_SECONDS)
            except HarnessError as error:
                self._warn(f"the bundle {bundle_id!r} was committed, but not finalized: {error}")


def _request(instruction_id: str) -> beam_fn_api_pb2.InstructionRequest:
    return beam_fn_api_pb2.InstructionRequest(
        finalize_bundle=beam_fn_api_pb2.FinalizeBundleRequest(instruction_id=instruction_id)
    )
