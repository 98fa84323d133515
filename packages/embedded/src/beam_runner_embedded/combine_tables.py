"""The first phase of a lifted combine, with a memory limit for the table of accumulators.

As in Beam's operation, the table has an accumulator for each key, up to a maximum number of keys.
In addition, this operation emits and clears the table when the memory of the process has grown by
more than a limit. That is correct, because the second phase combines all accumulators of a key
after the shuffle.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from pathlib import Path
from typing import Any

from apache_beam.runners.worker import operations
from apache_beam.transforms import combiners, core
from apache_beam.transforms.window import BoundedWindow, GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from beam_runner_embedded.runs import MOST_VALUES, ElementRunOutputMixin, add_step_name
from beam_runner_embedded.tuple_combines import make_tuple_adder

TABLE_BYTES = 256 << 20
"""The default memory limit of a combine's table, in bytes."""
_CHECK_SECONDS = 0.01
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_PAGES = Path("/proc/self/statm")

_MOST_WAITING = 10
"""Number of values of a key that are buffered and then added together, as in Beam."""
_MOST_KEYS = 100_000
_MOST_KEYS_OF_SMALL = 1_000_000
_ANY_GLOBAL = GlobalWindows.windowed_value(None)

Table = dict[Any, list[Any]]
"""Table of a window. Each key has a list of its accumulator and its buffered values."""


class MemoryBoundedCombine(ElementRunOutputMixin, operations.PGBKCVOperation):
    """Beam's operation for the first phase of a combine, with a table of limited memory. The operation
    accepts runs: lists of elements that differ only in their values.

    If a callable such as ``sum`` combines values, the values of a key are buffered and added
    together, as in Beam. A CombineFn gets its values one by one. Values that arrive one by one are
    added immediately, because user code may still change them.

    Args:
        most_bytes: growth of the process's memory, in bytes, at which the table is emitted and
            cleared.
    """

    def __init__(self, *args: Any, most_bytes: int) -> None:
        super().__init__(*args)
        self._growth = _MemoryGrowth(most_bytes)
        fn = self.combine_fn
        self._most_keys = _MOST_KEYS_OF_SMALL if _has_small_accumulators(fn) else _MOST_KEYS
        is_callable = isinstance(fn, core.CallableWrapperCombineFn)
        self._add_run = self._add_pairs_in_bulk if is_callable else self._add_pairs
        self._add_tuples = make_tuple_adder(fn)
        self._keys = 0
        self._tables: dict[BoundedWindow, Table] = {}
        self._times: dict[BoundedWindow, dict[Any, Any]] = {}
        self._last: tuple[Any, list[Table]] = (None, [])

    def start(self) -> None:
        """Prepares the operation for a new bundle."""
        super().start()
        self._growth.reset_baseline()

    def process(self, element: WindowedValue) -> None:
        """Adds one pair of a key and a value to the table."""
        self.process_element_run(element, [element.value])

    def process_element_run(self, like: WindowedValue, values: list[Any]) -> None:
        """Adds a run of pairs (pairs with the same timestamp and windows) to the table."""
        add = self._add_run if len(values) > 1 else self._add_pairs
        try:
            with self.scoped_process_state:
                for table in self._find_window_tables(like.windows):
                    add(table, values)
                if self.timestamp_combiner:
                    for window in like.windows:
                        self._combine_timestamps(
                            self._times.setdefault(window, {}), like.timestamp, values
                        )
            self._flush_if_too_large()
        except BaseException as error:
            raise add_step_name(error, self)  # noqa: B904 - its context is what Beam looks at, too

    def finish(self) -> None:
        """Emits and clears the table; called at the end of a bundle."""
        for window, table in self._tables.items():
            self._emit_table(window, table)
        self._tables, self._times, self._last = {}, {}, (None, [])
        self._keys = 0

    def _find_window_tables(self, windows: Any) -> list[Table]:
        # Compare with the previous element's windows first: most elements share that tuple, and
        # hashing windows is slow.
        known, tables = self._last
        if windows is not known:
            tables = [self._tables.setdefault(window, {}) for window in windows]
            # Cache only tuples, because a list could be changed in place.
            self._last = (windows if type(windows) is tuple else None, tables)
        return tables

    def _add_pairs(self, table: Table, pairs: list[Any]) -> None:
        if self._add_tuples is not None:
            self._add_tuples(table, pairs, self._create_key_entry)
            return
        get, add = table.get, self.combine_fn_add_input
        for pair in pairs:
            key, value = pair
            entry = get(key)
            if entry is None:
                entry = self._create_key_entry(table, key)
            entry[0] = add(entry[0], value)

    def _add_pairs_in_bulk(self, table: Table, pairs: list[Any]) -> None:
        get = table.get
        for pair in pairs:
            key, value = pair
            entry = get(key)
            if entry is None:
                entry = self._create_key_entry(table, key)
            entry.append(value)
            if len(entry) > _MOST_WAITING:
                self._combine_waiting_values(key, entry)

    def _create_key_entry(self, table: Table, key: Any) -> list[Any]:
        self._keys += 1
        entry = table[key] = [self.combine_fn.create_accumulator()]
        return entry

    def _combine_waiting_values(self, key: Any, entry: list[Any]) -> None:
        entry[:] = [self.combine_fn.add_inputs(entry[0], entry[1:])]

    def _combine_timestamps(self, times: dict[Any, Any], time: Any, pairs: list[Any]) -> None:
        combine = self.timestamp_combiner.combine
        for key, _ in pairs:
            times[key] = combine(times.get(key, time), time)

    def _emit_table(self, window: BoundedWindow, table: Table) -> None:
        assert self._output is not None
        like = _ANY_GLOBAL
        if not self.is_default_windowing:
            like = WindowedValue(None, window.max_timestamp(), (window,))
        pairs: list[Any] = []
        for key, entry in table.items():
            pairs.append((key, self._compact_accumulator(key, entry)))
            if self.timestamp_combiner:
                like = WindowedValue(None, self._times[window][key], (window,))
            if self.timestamp_combiner or len(pairs) == MOST_VALUES:
                self._output.process_element_run(like, pairs)
                pairs = []
        if pairs:
            self._output.process_element_run(like, pairs)

    def _compact_accumulator(self, key: Any, entry: list[Any]) -> Any:
        """Returns the accumulator to emit for a key."""
        if len(entry) > 1:
            self._combine_waiting_values(key, entry)
        return entry[0] if self.combine_fn_compact is None else self.combine_fn_compact(entry[0])

    def _flush_if_too_large(self) -> None:
        if self._growth.exceeds_limit() or self._keys > self._most_keys:
            # Emit and clear the table before the memory of the process grows further.
            self.finish()
            _release_freed_memory()
            self._growth.reset_baseline()


def _has_small_accumulators(fn: core.CombineFn) -> bool:
    if isinstance(fn, core.CallableWrapperCombineFn):
        return fn._fn in (min, max, sum)
    return isinstance(fn, (combiners.CountCombineFn, combiners.MeanCombineFn))


class _MemoryGrowth:
    """Growth of this process's memory since the last reset of the baseline, sampled every 10 ms.

    The growth is 0 if the operating system doesn't report memory.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self.reset_baseline()

    def reset_baseline(self) -> None:
        """Uses the next memory sample as the new baseline."""
        self._least: int | None = None
        self._next_check = time.perf_counter() + _CHECK_SECONDS

    def exceeds_limit(self) -> bool:
        """Returns True if the memory of the process has grown by more than the limit."""
        now = time.perf_counter()
        if now < self._next_check:
            return False
        self._next_check = now + _CHECK_SECONDS
        own = _read_process_memory()
        self._least = own if self._least is None else min(self._least, own)
        return own - self._least > self._most


def _read_process_memory() -> int:
    """Returns the anonymous memory of this process in bytes; 0 if the system doesn't report the
    memory.
    """
    try:
        _, resident, of_files, *_ = _PAGES.read_bytes().split()
    except (OSError, ValueError):
        return 0
    return (int(resident) - int(of_files)) * _PAGE_BYTES


def _release_freed_memory() -> None:
    """Returns freed memory to the operating system, if the allocator supports that."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
