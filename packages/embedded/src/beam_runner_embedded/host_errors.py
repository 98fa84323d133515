"""Recording of exceptions that the runner raises when user code reads or writes state, side inputs and
large groups. A bundle fails even if user code catches such an exception.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType

from beam_runner_model.chunks import StageTimer, StateCell
from beam_runner_model.value_pieces import ValuePieces
from beam_runner_worker.errors import TimerRefused
from beam_runner_worker.ports import UserState


class HostErrorRecorder:
    """Context manager for calls of the runner. It records the first exception, and doesn't suppress
    the exception.

    Attributes:
        first: the first exception that a call of the runner raised; None if no call raised an
            exception.
    """

    __slots__ = ("first",)

    def __init__(self) -> None:
        self.first: BaseException | None = None

    def __enter__(self) -> None:
        """Does nothing: the recorder has no state to prepare for a call."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Records the exception if it is the first exception of a call to the runner."""
        if error is not None and self.first is None:
            self.first = error


def record_piece_errors(pieces: ValuePieces, errors: HostErrorRecorder) -> ValuePieces:
    """Returns equal `ValuePieces` whose reader records exceptions, even if user code reads the
    values much later.
    """

    def read_value_piece(number: int) -> bytes:
        with errors:
            return pieces.piece(number)

    return ValuePieces(len(pieces), pieces.pieces, read_value_piece)


class ErrorRecordingState:
    """Wrapper of the runner's :class:`~beam_runner_worker.ports.UserState` that records the exceptions of all calls."""

    __slots__ = ("_errors", "_state")

    def __init__(self, state: UserState, errors: HostErrorRecorder) -> None:
        self._state = state
        self._errors = errors

    def read_bag(self, cell: StateCell) -> bytes:
        with self._errors:
            return self._state.read_bag(cell)

    def append_to_bag(self, cell: StateCell, values: bytes) -> None:
        with self._errors:
            self._state.append_to_bag(cell, values)

    def replace_bag(self, cell: StateCell, values: bytes) -> None:
        with self._errors:
            self._state.replace_bag(cell, values)

    def clear_cell(self, cell: StateCell) -> None:
        with self._errors:
            self._state.clear_cell(cell)

    def read_map_keys(self, cell: StateCell) -> bytes:
        with self._errors:
            return self._state.read_map_keys(cell)

    def read_map_values(self, cell: StateCell, map_key: bytes) -> bytes:
        with self._errors:
            return self._state.read_map_values(cell, map_key)

    def append_map_values(self, cell: StateCell, map_key: bytes, values: bytes) -> None:
        with self._errors:
            self._state.append_map_values(cell, map_key, values)

    def remove_map_key(self, cell: StateCell, map_key: bytes) -> None:
        with self._errors:
            self._state.remove_map_key(cell, map_key)

    def read_ordered_values(
        self, cell: StateCell, start: int, end: int
    ) -> Iterator[tuple[int, bytes]]:
        """Reads all values before it returns, so that an exception at a later value is recorded, too."""
        with self._errors:
            return iter([*self._state.read_ordered_values(cell, start, end)])

    def insert_ordered_value(self, cell: StateCell, sort_key: int, value: bytes) -> None:
        with self._errors:
            self._state.insert_ordered_value(cell, sort_key, value)

    def remove_ordered_values(self, cell: StateCell, start: int, end: int) -> None:
        with self._errors:
            self._state.remove_ordered_values(cell, start, end)

    def set_timer(self, timer: StageTimer) -> None:
        """Sets or clears a timer. A refused timer is an error of user code, so it isn't recorded."""
        refused: TimerRefused | None = None
        with self._errors:
            try:
                self._state.set_timer(timer)
            except TimerRefused as error:
                refused = error
        if refused is not None:
            raise refused
