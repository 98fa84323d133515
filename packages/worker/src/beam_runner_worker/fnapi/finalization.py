"""Finalization of committed bundles in the SDK harnesses that ran them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import attrs

from beam_runner_worker._protos import beam_fn_api_pb2
from beam_runner_worker.awaiting_commit import CommitData
from beam_runner_worker.errors import HarnessError
from beam_runner_worker.fnapi.connection import SdkConnection

_FINALIZE_SECONDS = 30.0


@attrs.frozen
class _PendingFinalization:
    connection: SdkConnection
    instruction_ids: tuple[str, ...]


class PendingFinalizations:
    """Bundles of one stage that requested finalization and aren't committed yet.

    A bundle is removed when its SDK harness is lost, or after one hour. The SDK itself drops
    callbacks that expire earlier.

    Args:
        warn: function that shows a warning to the user.
        clock: returns seconds.
    """

    def __init__(
        self, warn: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._warn = warn
        self._waiting: CommitData[str, _PendingFinalization] = CommitData(clock=clock)

    def add_bundle(
        self, bundle_id: str, connection: SdkConnection, instruction_ids: Iterable[str]
    ) -> None:
        """Adds a finished bundle that requested finalization. The bundle replaces an earlier bundle
        with the same id.

        Args:
            bundle_id: the runner's id of the bundle.
            instruction_ids: the SDK's ids of the bundle parts that requested finalization.
        """
        self._waiting.drop_lost_data(lambda waiting: not waiting.connection.is_usable)
        self._waiting.store_bundle_data(
            bundle_id, _PendingFinalization(connection, tuple(instruction_ids))
        )

    def finalize_bundle(self, bundle_id: str) -> None:
        """Makes the SDK run the finalization callbacks of a committed bundle; see
        :meth:`beam_runner_worker.ports.StageHarness.finalize_bundle`.

        Waits for the callbacks, for at most 30 s for each of the SDK's bundles.
        """
        waiting = self._waiting.take_bundle_data(bundle_id)
        if waiting is None:
            return
        for instruction_id in waiting.instruction_ids:
            try:
                waiting.connection.send_and_wait(_create_request(instruction_id), _FINALIZE_SECONDS)
            except HarnessError as error:
                self._warn(
                    f"the bundle {bundle_id!r} was committed, but its finalization failed: {error}"
                )


def _create_request(instruction_id: str) -> beam_fn_api_pb2.InstructionRequest:
    return beam_fn_api_pb2.InstructionRequest(
        finalize_bundle=beam_fn_api_pb2.FinalizeBundleRequest(instruction_id=instruction_id)
    )
