"""State cells that user code reads and writes. A cell is read at the first access, and written to the
runner when another key follows.

User code immediately sees its own writes. A cell is written to the runner in one call, in
``flush``, even after thousands of additions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import attrs
from apache_beam.coders import coder_impl
from apache_beam.transforms import core, userstate
from apache_beam.utils.timestamp import Timestamp
from beam_runner_model.chunks import StateCell
from beam_runner_worker.errors import HarnessError
from beam_runner_worker.limits import check_state_values
from beam_runner_worker.ports import UserState

from beam_runner_embedded.lazy import decode_all

_FIRST_SORT_KEY, _AFTER_SORT_KEYS = -(1 << 63), (1 << 63) - 1


@attrs.frozen
class StoredCell:
    """State cell that the runner stores in encoded form, with the coder of the cell's values."""

    state: UserState
    cell: StateCell
    impl: coder_impl.CoderImpl

    def read_values(self) -> list[Any]:
        """Returns all values of the state cell, decoded."""
        data = self.state.read_bag(self.cell)
        return decode_all(self.impl, data) if data else []

    def replace_values(self, values: Iterable[Any]) -> None:
        """Replaces all values of the state cell."""
        self.state.replace_bag(self.cell, self._encode_values(values))

    def append_values(self, values: Iterable[Any]) -> None:
        """Appends values to the state cell."""
        data = self._encode_values(values)
        if data:
            self.state.append_to_bag(self.cell, data)

    def _encode_values(self, values: Iterable[Any]) -> bytes:
        encoded = [*map(self.impl.encode_nested, values)]
        check_state_values(encoded)
        return encoded[0] if len(encoded) == 1 else b"".join(encoded)


class ValueCell(userstate.ReadModifyWriteRuntimeState):
    """State cell of a value state: one value or none."""

    def __init__(self, stored: StoredCell) -> None:
        self._stored = stored
        self._values: list[Any] | None = None
        self._changed = False

    def read(self) -> Any:
        """Returns the value of the state; None if the state is empty."""
        if self._values is None:
            self._values = self._stored.read_values()
        return self._values[0] if self._values else None

    def write(self, value: Any) -> None:
        """Replaces the value of the state."""
        self._values = [value]
        self._changed = True

    def clear(self) -> None:
        """Removes the value of the state."""
        self._values = []
        self._changed = True

    def flush(self) -> None:
        """Writes the changes of the state cell to the runner. The cell must not be used after this call."""
        if self._changed:
            self._stored.replace_values(self._values or ())


class BagCell(userstate.BagRuntimeState):
    """State cell of a bag state, which has values in the order in which user code added them."""

    def __init__(self, stored: StoredCell) -> None:
        self._stored = stored
        self._before: list[Any] | None = None
        self._added: list[Any] = []
        self._cleared = False

    def read(self) -> list[Any]:
        """Returns all current values, in a new list."""
        if self._before is None:
            self._before = self._stored.read_values()
        return self._before + self._added

    def add(self, value: Any) -> None:
        """Adds a value without a read of the other values."""
        self._added.append(value)

    def clear(self) -> None:
        """Removes all values of the bag."""
        self._before, self._added, self._cleared = [], [], True

    def flush(self) -> None:
        """Writes the changes of the state cell to the runner. The cell must not be used after this call."""
        if self._cleared:
            self._stored.replace_values(self._added)
        elif self._added:
            self._stored.append_values(self._added)


class SetCell(userstate.SetRuntimeState):
    """State cell of a set state: distinct values. The runner stores the values as a bag, as the Python
    SDK does for sets.
    """

    def __init__(self, stored: StoredCell) -> None:
        self._stored = stored
        self._before: set[Any] | None = None
        self._added: set[Any] = set()
        self._cleared = False

    def read(self) -> set[Any]:
        """Returns all current values, in a new set."""
        return self._read_stored_values() | self._added

    def add(self, value: Any) -> None:
        """Adds a value, unless the set already contains the value."""
        self._added.add(value)

    def clear(self) -> None:
        """Removes all values of the set."""
        self._before, self._added, self._cleared = set(), set(), True

    def flush(self) -> None:
        """Writes the changes of the state cell to the runner, except added values that the set already
        contains. The cell must not be used after this call.
        """
        if self._cleared:
            self._stored.replace_values(self._added)
        elif self._added:
            self._stored.append_values(self._added - self._read_stored_values())

    def _read_stored_values(self) -> set[Any]:
        if self._before is None:
            self._before = set(self._stored.read_values())
        return self._before


class CombiningCell(userstate.CombiningValueRuntimeState):
    """State cell of a combining state: the added values, combined by a CombineFn and stored as one accumulator."""

    def __init__(self, stored: StoredCell, combine_fn: core.CombineFn) -> None:
        self._stored = stored
        self._combine_fn = combine_fn
        self._accumulators: list[Any] | None = None
        self._changed = False
        self._shown = False

    def read(self) -> Any:
        """Returns the combined value; for an empty cell, the output of a new accumulator."""
        # Record that user code has read the state, because the output may be the accumulator
        # itself, and user code may still use this object.
        self._shown = True
        return self._combine_fn.extract_output(self._get_accumulator())

    def add(self, value: Any) -> None:
        """Adds a value to the combined value of the state."""
        accumulator = self._get_accumulator()
        if self._shown:
            accumulator = self._combine_fn.merge_accumulators([accumulator])
            self._shown = False
        self._accumulators = [self._combine_fn.add_input(accumulator, value)]
        self._changed = True

    def clear(self) -> None:
        """Removes all values of the combining state."""
        self._accumulators = []
        self._changed = True

    def flush(self) -> None:
        """Writes the changes of the state cell to the runner. The cell must not be used after this call."""
        if self._changed:
            self._stored.replace_values(self._accumulators or ())

    def _get_accumulator(self) -> Any:
        known = self._stored.read_values() if self._accumulators is None else self._accumulators
        if not known:
            known = [self._combine_fn.create_accumulator()]
        elif len(known) > 1:
            known = [self._combine_fn.merge_accumulators(known)]
        self._accumulators = known
        return known[0]


class OrderedListCell(userstate.OrderedListRuntimeState):
    """State cell of an ordered list state: values sorted by timestamp (in microseconds at the runner).
    Reads and writes go to the runner immediately.
    """

    def __init__(self, stored: StoredCell) -> None:
        self._stored = stored

    def add(self, value: tuple[Timestamp, Any]) -> None:
        """Adds a value with its timestamp.

        Raises:
            ValueError: The timestamp is outside of the range of an ordered list.
        """
        timestamp, data = value
        sort_key = timestamp.micros
        if not _FIRST_SORT_KEY <= sort_key < _AFTER_SORT_KEYS:
            raise ValueError(
                f"the timestamp {timestamp} is outside of the range of an ordered list"
            )
        stored = self._stored
        stored.state.insert_ordered_value(stored.cell, sort_key, stored.impl.encode_nested(data))

    def read(self) -> list[tuple[Timestamp, Any]]:
        """Returns all values with their timestamps, ascending."""
        return self._read_between(_FIRST_SORT_KEY, _AFTER_SORT_KEYS)

    def read_range(
        self, min_time_stamp: Timestamp, limit_time_stamp: Timestamp
    ) -> list[tuple[Timestamp, Any]]:
        """Returns the values with timestamps in a half-open range, ascending."""
        return self._read_between(min_time_stamp.micros, limit_time_stamp.micros)

    def clear(self) -> None:
        """Removes all values of the ordered list."""
        self._stored.state.clear_cell(self._stored.cell)

    def clear_range(self, min_time_stamp: Timestamp, limit_time_stamp: Timestamp) -> None:
        """Removes the values with timestamps in a half-open range."""
        stored = self._stored
        start, end = min_time_stamp.micros, limit_time_stamp.micros
        stored.state.remove_ordered_values(stored.cell, start, end)

    def flush(self) -> None:
        """Does nothing, because all changes are written already."""

    def _read_between(self, start: int, end: int) -> list[tuple[Timestamp, Any]]:
        stored = self._stored
        decode = stored.impl.decode_nested
        return [
            (Timestamp(micros=sort_key), decode(data))
            for sort_key, data in stored.state.read_ordered_values(stored.cell, start, end)
        ]


RuntimeCell = ValueCell | BagCell | SetCell | CombiningCell | OrderedListCell

_SIMPLE_KINDS: dict[type[userstate.StateSpec], type[Any]] = {
    userstate.ReadModifyWriteStateSpec: ValueCell,
    userstate.BagStateSpec: BagCell,
    userstate.SetStateSpec: SetCell,
    userstate.OrderedListStateSpec: OrderedListCell,
}


def get_cell_factory(
    spec: userstate.StateSpec, combine_fn: core.CombineFn | None
) -> Callable[[StoredCell], RuntimeCell]:
    """Returns a factory of the state objects (cells) that user code gets for a declared state.

    Args:
        spec: the state that the DoFn declares.
        combine_fn: the CombineFn of a combining state, after its set-up; None for other kinds.

    Raises:
        HarnessError: the kind of state is unknown.
    """
    if combine_fn is not None:
        return lambda stored: CombiningCell(stored, combine_fn)
    for kind, cell in _SIMPLE_KINDS.items():
        if isinstance(spec, kind):
            return cell
    raise HarnessError(f"The embedded harness doesn't support {type(spec).__name__} ({spec.name})")
