"""Fast window assignment for Beam's own window functions, which depend only on the timestamp of an
element.

Beam computes the windows of every element again, which takes 10 to 20 µs. This module computes them
once for all elements with the same windows, which share one tuple.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from apache_beam.runners.worker import operations
from apache_beam.transforms import window
from apache_beam.transforms.window import BoundedWindow, WindowFn
from apache_beam.utils import windowed_value
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from beam_runner_embedded.dofn_runners import record_created_runners
from beam_runner_embedded.runs import ElementRunOutputMixin, add_step_name

_MAX_CACHED_KEYS = 4096

WindowAssigner = Callable[[int], tuple[BoundedWindow, ...]]
"""Function that returns the windows of a timestamp in microseconds."""


def create_window_assigner(window_fn: WindowFn) -> WindowAssigner | None:
    """Returns a function that maps timestamps to windows; None if the window function is not Beam's own."""
    name = _NAMES.get(type(window_fn))
    if name is None:
        return None
    name_of = name(window_fn)
    known: dict[Hashable, tuple[BoundedWindow, ...]] = {}

    def assign_windows(micros: int) -> tuple[BoundedWindow, ...]:
        name = name_of(micros)
        windows = known.get(name)
        if windows is None:
            if len(known) >= _MAX_CACHED_KEYS:
                known.clear()
            context = WindowFn.AssignContext(Timestamp(micros=micros))
            windows = known[name] = tuple(window_fn.assign(context))
        return windows

    return assign_windows


def _make_global_window_key(window_fn: window.GlobalWindows) -> Callable[[int], Hashable]:
    return lambda micros: None


def _make_fixed_window_key(window_fn: window.FixedWindows) -> Callable[[int], Hashable]:
    size, offset = window_fn.size.micros, window_fn.offset.micros
    return lambda micros: (micros - offset) // size


def _make_sliding_window_key(window_fn: window.SlidingWindows) -> Callable[[int], Hashable]:
    size, offset = window_fn.size.micros, window_fn.offset.micros
    period = window_fn.period.micros

    def get_window_key(micros: int) -> Hashable:
        # Two numbers identify the set of windows of a timestamp: the last window that began by
        # then, and the last window that ended by then.
        return (micros - offset) // period, (micros - offset - size) // period

    return get_window_key


def _make_session_window_key(window_fn: window.Sessions) -> Callable[[int], Hashable]:
    return lambda micros: micros


_NAMES: dict[type[WindowFn], Callable[[Any], Callable[[int], Hashable]]] = {
    window.GlobalWindows: _make_global_window_key,
    window.FixedWindows: _make_fixed_window_key,
    window.SlidingWindows: _make_sliding_window_key,
    window.Sessions: _make_session_window_key,
}
"""Factories by window function. A factory returns a function whose result is equal for timestamps with
the same windows.
"""


class AssignWindows(ElementRunOutputMixin, operations.DoOperation):
    """Beam's operation for WindowInto, which assigns windows by timestamp if the window function
    allows it.

    Elements without a window are dropped.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.takes_runs = False
        self._windows_of: WindowAssigner | None = None

    def setup(self, data_sampler: Any = None) -> None:
        """Selects the fast path, which computes windows from timestamps only, if the window
        function allows this.
        """
        with record_created_runners() as made:
            super().setup(data_sampler)
        if data_sampler is not None:
            return
        self._window_fn = made[0].fn.windowing.windowfn
        self._windows_of = create_window_assigner(self._window_fn)
        if self._windows_of is None:
            self.process = self._process_by_element
            return
        self.process = self._process_by_time
        self.takes_runs = True

    def process_element_run(self, like: WindowedValue, values: list[Any]) -> None:
        """Assigns windows to a run of elements (elements that differ only in their values), and emits the run."""
        assert self._windows_of is not None and self._output is not None
        micros = like.timestamp_micros
        if windows := self._windows_of(micros):
            with self.scoped_process_state:
                for _ in like.windows:
                    self._output.process_element_run(
                        windowed_value.create(None, micros, windows), values
                    )

    def _process_by_time(self, element: WindowedValue) -> None:
        assert self._windows_of is not None
        micros = element.timestamp_micros
        if windows := self._windows_of(micros):
            with self.scoped_process_state:
                for _ in element.windows:
                    self.receivers[0].receive(windowed_value.create(element.value, micros, windows))

    def _process_by_element(self, element: WindowedValue) -> None:
        """Assigns windows to one element with Beam's window function, once for each window that the element is in."""
        value = element.value
        try:
            with self.scoped_process_state:
                for window in element.windows:
                    context = WindowFn.AssignContext(element.timestamp, value, window)
                    if windows := tuple(self._window_fn.assign(context)):
                        self.receivers[0].receive(WindowedValue(value, context.timestamp, windows))
        except BaseException as error:
            raise add_step_name(error, self)  # noqa: B904 - its context is what Beam looks at, too
