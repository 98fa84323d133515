"""Bundles that asked to be told of their commit: where they ran, until they are told."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import attrs

from beam_runner_worker._protos import beam_fn_api_pb2
from beam_runner_worker.awaiting_commit import AwaitingCommit
from beam_runner_worker.errors import HarnessError
from beam_runner_worker.fnapi.connection import SdkConnection

_FINALIZE_SECONDS = 30.0


@attrs.frozen
class _Waiting:
    connection: SdkConnection
    instruction_ids: tuple[str, ...]


class Finalizations:
    """The bundles of one stage whose commit their SDK waits for.

    A bundle is forgotten with its SDK harness, or when it is old. Whether a callback has expired
    before, the SDK knows.

    Args:
        warn: takes what people should know.
        clock: gives seconds.
    """

    def __init__(
        self, warn: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._warn = warn
        self._waiting: AwaitingCommit[str, _Waiting] = AwaitingCommit(clock=clock)

    def remember(
        self, bundle_id: str, connection: SdkConnection, instruction_ids: Iterable[str]
    ) -> None:
        """A bundle has ended that asked for it; of two with the same id the later one counts.

        Args:
            bundle_id: the host's.
            connection: the SDK harness.
            instruction_ids: of the SDK's bundles in it that asked.
        """
        self._waiting.forget(lambda waiting: not waiting.connection.usable)
        self._waiting.keep(bundle_id, _Waiting(connection, tuple(instruction_ids)))

    def finalize(self, bundle_id: str) -> None:
        """Tells the SDK; see :meth:`beam_runner_worker.ports.StageHarness.finalize`.

        Waits for the callbacks, for 30 seconds at most for each of the SDK's bundles.
        """
        waiting = self._waiting.take(bundle_id)
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
