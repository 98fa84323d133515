"""The first phase of a lifted combine, which gives up what it keeps before that takes too much memory.

Beam's operation keeps an accumulator for each key in a table, up to a number of keys, however large
accumulators are. Here it also puts all of them out when the process has grown by too much: what
is combined less before the shuffle is combined after it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from apache_beam.runners.worker import operations
from apache_beam.utils.windowed_value import WindowedValue

from beam_runner_worker.embedded.runs import named

TABLE_BYTES = 256 << 20
"""How much memory the table of a combine may take unless the host says otherwise."""
_LOOK_SECONDS = 0.01
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_PAGES = Path("/proc/self/statm")


class TableCombine(operations.PGBKCVOperation):
    """Beam's operation, which takes runs, too.

    Args:
        most_bytes: how much memory the process may take more than before there was a table.
    """

    takes_runs = True

    def __init__(self, *args: Any, most_bytes: int) -> None:
        super().__init__(*args)
        self._growth = _Growth(most_bytes)
        if self.combine_fn_compact is not None:
            self.output_key = _putting_out(super().output_key)

    def start(self) -> None:
        """Begins a bundle."""
        super().start()
        self._growth.restart()

    def process(self, element: WindowedValue) -> None:
        """Takes a pair of a key and a value."""
        super().process(element)
        self._look()

    def take(self, like: WindowedValue, values: list[Any]) -> None:
        """Takes a run of pairs."""
        add = self.add_key_value
        try:
            with self.scoped_process_state:
                if self.is_default_windowing:
                    for key, value in values:
                        add(key, value, None)
                else:
                    timestamp = like.timestamp if self.timestamp_combiner else None
                    for key, value in values:
                        for window in like.windows:
                            add((window, key), value, timestamp)
            self._look()
        except BaseException as error:
            raise named(error, self)  # noqa: B904 - its context is what Beam looks at, too

    def _look(self) -> None:
        if self._growth.is_too_much():
            # Puts the table out and begins a new one, and does nothing else.
            self.finish()
            _give_back()
            self._growth.restart()


def _putting_out(put_out: Callable[..., None]) -> Callable[..., None]:
    """The same, with a frame that shows which key it is, where compacting it fails."""

    def put_out_key(wkey: Any, accumulator: Any, timestamp: Any) -> None:
        put_out(wkey, accumulator, timestamp)

    return put_out_key


class _Growth:
    """By how much this process has grown, looked at now and then; where no system tells, not at all."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self.restart()

    def restart(self) -> None:
        """What there is at the next look is what it grows from."""
        self._least: int | None = None
        self._next_look = time.perf_counter() + _LOOK_SECONDS

    def is_too_much(self) -> bool:
        """Whether it has grown by more than it may."""
        now = time.perf_counter()
        if now < self._next_look:
            return False
        self._next_look = now + _LOOK_SECONDS
        own = _own_bytes()
        self._least = own if self._least is None else min(self._least, own)
        return own - self._least > self._most


def _own_bytes() -> int:
    """The memory of this process that is no file's; 0 if the system does not tell."""
    try:
        _, resident, of_files, *_ = _PAGES.read_bytes().split()
    except (OSError, ValueError):
        return 0
    return (int(resident) - int(of_files)) * _PAGE_BYTES


def _give_back() -> None:
    """Has what was freed given back to the system, where that can be asked for."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
