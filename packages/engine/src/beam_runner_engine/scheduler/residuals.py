"""Residuals: unfinished work that comes back from a bundle, at its end or when it is split."""

from __future__ import annotations

from collections.abc import Iterable

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
    residuals: Iterable[Residual],
    origins: tuple[int, ...] = (),
) -> None:
    """Makes residuals of a bundle work of its stage again, at once or after their delay.

    `origins` are pieces whose storage they may share. While the job drains nothing is delayed.
    Must be called before the bundle's own work is removed.
    """
    for residual in residuals:
        piece = piece_of(state, record, residual.data, origins)
        windows = residual.data.facts.windows if residual.windows is None else residual.windows
        for work in new_work(
            state,
            stage,
            piece,
            windows,
            watermark=residual.watermark,
            estimator_state=residual.estimator_state,
            residual=True,
            truncated=record.truncated and not residual.untouched,
        ):
            if residual.delay and state.phase is Phase.RUNNING:
                delay_work(state, stage, work, residual.delay)
            else:
                place_work(state, stage, work)
        drop_use(state, piece)


def piece_of(
    state: SchedulerState, record: BundleRecord, data: Data, origins: tuple[int, ...]
) -> int:
    """Returns the piece of some data, with one more use: the bundle's own if it is handed back whole."""
    for work in record.work:
        if work.data == data:
            add_use(state, work.piece)
            return work.piece
    return add_piece(state, data, origins)
