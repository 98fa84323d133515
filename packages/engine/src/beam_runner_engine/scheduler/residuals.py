"""Residuals: unfinished work that a bundle returns when it finishes or is split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.delivery import create_pending_work, queue_pending_work
from beam_runner_engine.scheduler.events import Residual
from beam_runner_engine.scheduler.pieces import (
    add_data_piece,
    add_data_piece_reference,
    drop_data_piece_reference,
)
from beam_runner_engine.scheduler.state import BundleRecord, SchedulerState, StageState
from beam_runner_engine.scheduler.transitions import Phase
from beam_runner_engine.scheduler.wakeups import delay_work


def requeue_residuals(
    state: SchedulerState,
    stage: StageState,
    record: BundleRecord,
    residuals: Sequence[Residual],
    origins: tuple[int, ...] = (),
) -> None:
    """Turns residuals of a bundle into work of its stage, immediately or after their delay.

    Call this function before the bundle's own work is removed. During a drain, only residuals that
    a drain doesn't truncate (`Residual.whole`) keep their delay. All other residuals are truncated
    as soon as possible.

    Args:
        origins: the numbers of the data items (pieces) whose storage the residuals can share.
    """
    own = map_bundle_data_to_pieces(record) if residuals else {}
    for residual in residuals:
        piece = get_data_piece_number(state, own, residual.data, origins)
        windows = residual.data.facts.windows if residual.windows is None else residual.windows
        for work in create_pending_work(
            state,
            stage,
            piece,
            windows,
            watermark=residual.watermark,
            estimator_state=residual.estimator_state,
            residual=True,
            truncated=residual.whole or (record.truncated and not residual.untouched),
        ):
            # Journals of older versions don't record the field `whole`. In those versions, a drain
            # ran residuals without delay.
            if residual.delay and (residual.whole or state.phase is Phase.RUNNING):
                delay_work(state, stage, work, residual.delay)
            else:
                queue_pending_work(state, stage, work)
        drop_data_piece_reference(state, piece)


def map_bundle_data_to_pieces(record: BundleRecord) -> dict[Data, int]:
    """Returns a mapping from the data that a bundle processes to the number of the data's piece
    (reference-counted item).
    """
    return {work.data: work.piece for work in record.work}


def get_data_piece_number(
    state: SchedulerState, own: Mapping[Data, int], data: Data, origins: tuple[int, ...]
) -> int:
    """Returns the number of the piece (reference-counted item) for some data, and increments the
    reference count.

    If the data is a complete input of the bundle, the piece already exists. Otherwise, the function
    creates it.
    """
    piece = own.get(data)
    if piece is None:
        return add_data_piece(state, data, origins)
    add_data_piece_reference(state, piece)
    return piece
