"""How long data is needed: a count per piece of those who will still read it.

A piece is used by work that waits or is in a bundle, by side inputs, by views of side inputs that
bundles read, and by pieces split off it. When the last of them is gone, `ReleaseData` names it.
"""

from __future__ import annotations

from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.state import Piece, SchedulerState


def add_piece(state: SchedulerState, data: Data, origins: tuple[int, ...] = ()) -> int:
    """Notes new data, with one use that the caller must drop, and returns the piece's number."""
    number = state.next_piece
    state.next_piece += 1
    state.pieces[number] = Piece(data, uses=1, origins=origins)
    for origin in origins:
        add_use(state, origin)
    return number


def add_use(state: SchedulerState, number: int) -> None:
    """Notes one more reader of a piece."""
    state.pieces[number].uses += 1


def drop_use(state: SchedulerState, number: int) -> None:
    """Notes that a reader of a piece is done; the last one releases it and those it comes from."""
    unused = [number]
    while unused:
        number = unused.pop()
        piece = state.pieces[number]
        piece.uses -= 1
        if not piece.uses:
            del state.pieces[number]
            state.released.append(piece.data)
            unused.extend(piece.origins)
