"""Residuals: unfinished work that comes back from a bundle, at its end or when it is split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.delivery import new_work, place_work
from beam_runner_engine.scheduler.events import Residual
from beam_runner_engine.scheduler.pieces import add_piece, add_use, drop_use
from beam_runner_engine.scheduler.state import BundleRecord, SchedulerState, StageState
from beam_runner_engine.scheduler.transitions import Phase
from beam_runner_engine.scheduler.wakeups import delay_work


def take_back(
    state: SchedulerState,
    stage: StageState,
    record: BundleRecord,
    residuals: Sequence[Residual],
    origins: tuple[int, ...] = (),
) -> None:
    """Makes residuals of a bundle work of its stage again, at once or after their delay.

    `origins` are pieces whose storage they may share. While the job drains, only whole ones are delayed:
    those go on at their own pace, the others are to be truncated. Must be called before the bundle's own work is removed.
    """
    own = own_pieces(record) if residuals else {}
    for residual in residuals:
        piece = piece_of(state, own, residual.data, origins)
        windows = residual.data.facts.windows if residual.windows is None else residual.windows
        for work in new_work(
            state,
            stage,
            piece,
            windows,
            watermark=residual.watermark,
            estimator_state=residual.estimator_state,
            residual=True,
            truncated=residual.whole or (record.truncated and not residual.untouched),
        ):
            # Journals of older versions have no whole residuals: of these none is delayed, as it was then.
            if residual.delay and (residual.whole or state.phase is Phase.RUNNING):
                delay_work(state, stage, work, residual.delay)
            else:
                place_work(state, stage, work)
        drop_use(state, piece)


def own_pieces(record: BundleRecord) -> dict[Data, int]:
    """Returns the pieces a bundle works on by their data."""
    return {work.data: work.piece for work in record.work}


def piece_of(
    state: SchedulerState, own: Mapping[Data, int], data: Data, origins: tuple[int, ...]
) -> int:
    """Returns the piece of some data with one more use: one's own if it is handed back whole."""
    piece = own.get(data)
    if piece is None:
        return add_piece(state, data, origins)
    add_use(state, piece)
    return piece
