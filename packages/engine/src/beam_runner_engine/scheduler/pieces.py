"""Reference counts of data, which determine when data is released.

A piece is the data of one output or of a part of an output. The users of a piece are pending or
running work, side inputs, side-input views of bundles, and pieces that were split off. When the
count drops to zero, a `ReleaseData` command names the data.
"""

from __future__ import annotations

from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.state import Piece, SchedulerState


def add_data_piece(state: SchedulerState, data: Data, origins: tuple[int, ...] = ()) -> int:
    """Registers new data as a piece with a reference count of 1, and returns the number of the
    piece.

    The caller must call `drop_data_piece_reference` when it no longer needs the piece.
    """
    number = state.next_piece
    state.next_piece += 1
    state.pieces[number] = Piece(data, uses=1, origins=origins)
    for origin in origins:
        add_data_piece_reference(state, origin)
    return number


def add_data_piece_reference(state: SchedulerState, number: int) -> None:
    """Increments the reference count of a piece of data."""
    state.pieces[number].uses += 1


def drop_data_piece_reference(state: SchedulerState, number: int) -> None:
    """Decrements the reference count of a piece of data. At zero, releases the piece and its uses
    of other pieces.
    """
    unused = [number]
    while unused:
        number = unused.pop()
        piece = state.pieces[number]
        piece.uses -= 1
        if not piece.uses:
            del state.pieces[number]
            state.released.append(piece.data)
            unused.extend(piece.origins)
