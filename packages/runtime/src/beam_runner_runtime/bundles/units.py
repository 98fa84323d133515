"""Units of a bundle's input (elements, groups, timers), and the selection of the units that a trial
processes. A trial is one of several runs of a bundle that isolate failing units.

The index of a unit is its position in the order in which the bundle reads the input. Elements of a
stateful stage are excluded before they can change the state of their key.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial

import attrs
import pyarrow as pa
from beam_runner_data.grouping.key_runs import KeySortedElements
from beam_runner_model.chunks import (
    ElementChunk,
    FlushBarrier,
    GroupChunk,
    InputChunk,
    StageTimer,
    TimerChunk,
)
from beam_runner_model.lengths import encode_count
from beam_runner_model.quarantine import QuarantinedUnitKind
from beam_runner_model.value_pieces import ValuePieces
from beam_runner_model.windowed_values import encode_header


@attrs.frozen
class Unit:
    """One unit of a bundle's input: an element, a group or a timer.

    Attributes:
        encoded: windowed value of an element or a group; the encoded key of a timer.
        timer: timer of a timer unit.
    """

    kind: QuarantinedUnitKind
    encoded: bytes
    timer: StageTimer | None = None


class UnitSelection:
    """Selection of the units (elements, groups, timers) that one trial processes.

    Args:
        find_ends: function that returns the end offset of each element of a chunk.
        limit: number of units to process; None for all units.
        numbers_rows: whether `select_rows` counts and selects the elements, so that `select_chunks`
            counts only timers.

    Attributes:
        taken: number of units that were read, including excluded units.
        found: excluded units that were read, by index.
    """

    def __init__(
        self,
        find_ends: Callable[[ElementChunk], Sequence[int]],
        excluded: Collection[int] = (),
        limit: int | None = None,
        *,
        numbers_rows: bool = False,
    ) -> None:
        self._find_ends = find_ends
        self._excluded = frozenset(excluded)
        self._limit = limit
        self._numbers_rows = numbers_rows
        self.taken = 0
        self.found: dict[int, Unit] = {}

    @property
    def is_empty(self) -> bool:
        """Whether the trial runs a bundle without input."""
        return self._limit == 0

    def has_ended(self) -> bool:
        """Returns whether the trial has read as many units as it may."""
        return self._limit is not None and self.taken >= self._limit

    def find_end(self, passed: int) -> int:
        """Returns the number of units that were read from the input, including excluded units, when
        the harness had received `passed` units.
        """
        end = passed
        for number in sorted(self._excluded):
            if number < end:
                end += 1
        return min(end, self.taken)

    def select_chunks(self, chunks: Iterable[InputChunk]) -> Iterator[InputChunk]:
        """Yields the chunks of input without the excluded units. Stops reading at the limit."""
        if self.has_ended():
            return
        for chunk in chunks:
            if isinstance(chunk, ElementChunk) and self._numbers_rows:
                yield chunk
            elif self.has_ended():
                return
            elif isinstance(chunk, FlushBarrier):
                yield chunk
            else:
                yield from self._select_units(chunk)
            if self.has_ended():
                return

    def select_rows(self, parts: Iterable[KeySortedElements]) -> Iterator[KeySortedElements]:
        """Yields the elements of a stateful stage without excluded elements. Stops reading at the limit."""
        if self.has_ended():
            return
        for part in parts:
            kept = self._take_units(len(part), partial(_read_row, part))
            if kept is None:
                yield part
            elif kept:
                yield _select_rows(part, kept)
            if self.has_ended():
                return

    def _take_units(self, count: int, read: Callable[[int], Unit]) -> Sequence[int] | None:
        """Counts the next units. Returns the positions of the selected units among these; None if
        all are selected.

        Args:
            read: function that returns the content of the unit at an index.
        """
        first = self.taken
        last = first + count if self._limit is None else min(first + count, self._limit)
        self.taken = last
        out = sorted(number for number in self._excluded if first <= number < last)
        for number in out:
            self.found[number] = read(number - first)
        if last == first + count and not out:
            return None
        return [n - first for n in range(first, last) if n not in self._excluded]

    def _select_units(
        self, chunk: ElementChunk | GroupChunk | TimerChunk
    ) -> Iterator[ElementChunk | GroupChunk | TimerChunk]:
        match chunk:
            case ElementChunk():
                yield from self._select_elements(chunk)
            case GroupChunk():
                kept = self._take_units(len(chunk.keys), lambda n: _read_group(chunk, n))
                if kept is None:
                    yield chunk
                elif kept:
                    yield _select_groups(chunk, kept)
            case TimerChunk(timers):
                kept = self._take_units(
                    len(timers), lambda n: Unit(QuarantinedUnitKind.TIMER, timers[n].key, timers[n])
                )
                if kept is None:
                    yield chunk
                elif kept:
                    yield TimerChunk(tuple(timers[n] for n in kept))

    def _select_elements(self, chunk: ElementChunk) -> Iterator[ElementChunk]:
        count = chunk.selected_count
        ends: Sequence[int] = ()

        def read_selected_elements(index: int) -> bytes:
            nonlocal ends
            ends = ends or self._find_ends(chunk)
            number = chunk.first + index
            begin = ends[number - 1] if number else 0
            return bytes(chunk.data[begin : ends[number]])

        kept = self._take_units(
            count, lambda n: Unit(QuarantinedUnitKind.ELEMENT, read_selected_elements(n))
        )
        if kept is None:
            yield chunk
        elif kept:
            yield ElementChunk(len(kept), b"".join(map(read_selected_elements, kept)))


def _select_rows(part: KeySortedElements, kept: Sequence[int]) -> KeySortedElements:
    """Returns a part that contains only the elements at these positions."""
    keys: list[bytes] = []
    counts: list[int] = []
    all_keys = part.expand_keys()
    for index in kept:
        if keys and keys[-1] == all_keys[index]:
            counts[-1] += 1
        else:
            keys.append(all_keys[index])
            counts.append(1)
    windows = part.windows
    if not isinstance(windows, bytes):
        windows = [windows[index] for index in kept]
    rows = pa.array(kept, pa.int64())
    return attrs.evolve(
        part,
        keys=keys,
        counts=counts,
        windows=windows,
        timestamps=part.timestamps[list(kept)],
        values=part.values.take(rows),
    )


def _select_groups(chunk: GroupChunk, kept: Sequence[int]) -> GroupChunk:
    """Returns a chunk that contains only the groups at these positions."""
    windows = chunk.windows
    if not isinstance(windows, bytes):
        windows = [windows[index] for index in kept]
    return attrs.evolve(
        chunk,
        keys=[chunk.keys[index] for index in kept],
        windows=windows,
        timestamps=[chunk.timestamps[index] for index in kept],
        counts=[chunk.counts[index] for index in kept],
        values=[chunk.values[index] for index in kept],
    )


def _read_row(part: KeySortedElements, index: int) -> Unit:
    return Unit(QuarantinedUnitKind.ELEMENT, part.values[index].as_py())


def _read_group(chunk: GroupChunk, index: int) -> Unit:
    windows = chunk.windows
    window = windows if isinstance(windows, bytes) else windows[index]
    header = encode_header(int(chunk.timestamps[index]), window, chunk.pane)
    values = chunk.values[index]
    pieces = (
        map(values.piece, range(values.pieces)) if isinstance(values, ValuePieces) else (values,)
    )
    parts = (header, chunk.keys[index], encode_count(chunk.counts[index]), *pieces)
    return Unit(QuarantinedUnitKind.GROUP, b"".join(parts))
