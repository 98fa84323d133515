"""Beam's user state context for a stateful DoFn, which reads and writes the runner's state and timers.

Beam's own context requests each cell over a state channel and caches all cells of a bundle. This
context caches only the cells of one key and window, because the runner passes elements key by key.
The changes of a key are written when another key follows, or when the runner requests a flush.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from apache_beam.coders import coder_impl, coders
from apache_beam.transforms import core, userstate
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.window import BoundedWindow
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import PaneInfo
from beam_runner_model.chunks import StageTimer, StateCell

from beam_runner_embedded.state_handler import StateHandler
from beam_runner_embedded.state_kinds import RuntimeCell, StoredCell, get_cell_factory

_PANES = coder_impl.PaneInfoCoderImpl()
EQUAL_IF_ENCODED_EQUAL = frozenset({str, bytes, int, bool})
"""Types whose values are equal if and only if their encodings are equal. Other types need a comparison
of encodings: for example, 1 and 1.0 are equal in Python but have different encodings.
"""
_KEPT_WINDOWS = 1000
_Kind = tuple[Callable[[StoredCell], RuntimeCell], coder_impl.CoderImpl]


class UserTimer(userstate.BaseTimer):
    """Timer object that user code gets while it processes one element or timer."""

    __slots__ = ("_context", "_pane", "_spec", "_timestamp")

    def __init__(
        self,
        context: UserStateContext,
        spec: userstate.TimerSpec,
        timestamp: Timestamp,
        pane: PaneInfo,
    ) -> None:
        self._context = context
        self._spec = spec
        self._timestamp = timestamp
        self._pane = pane

    def set(self, timestamp: Any, dynamic_timer_tag: str = "") -> None:
        """Sets the firing time of the timer. The watermark hold is the firing time of an event-time
        timer, or the element's timestamp for other timers.
        """
        time = Timestamp.of(timestamp)
        hold = time if TimeDomain.is_event_time(self._spec.time_domain) else self._timestamp
        self._context.set_timer(
            self._spec.name,
            dynamic_timer_tag,
            _convert_to_millis(time),
            _convert_to_millis(hold),
            self._pane,
        )

    def clear(self, dynamic_timer_tag: str = "") -> None:
        """Clears the timer; does nothing if the timer isn't set."""
        self._context.set_timer(self._spec.name, dynamic_timer_tag, None, None, None)


class UserStateContext(userstate.UserStateContext):
    """State and timers of one transform, in place of Beam's ``FnApiUserStateContext``.

    Args:
        state_handler: gives access to the user state of the running bundle.
    """

    def __init__(
        self,
        state_handler: StateHandler,
        transform_id: str,
        key_coder: coders.Coder,
        window_coder: coders.Coder,
    ) -> None:
        self._handler = state_handler
        self._transform_id = transform_id
        self._key_impl = key_coder.get_impl()
        self._window_impl = window_coder.get_impl()
        self._windows: dict[bytes, BoundedWindow] = {}
        self._combine_fns: list[core.CombineFn] = []
        self._kinds: dict[userstate.StateSpec, _Kind] = {}
        self._clear_current_key()
        state_handler.cells[transform_id] = self

    @property
    def key(self) -> Any:
        """Key that user code is processing, or has processed last."""
        return self._key

    def _clear_current_key(self) -> None:
        self._key: Any = None
        self._key_data: bytes | None = None
        self._window: BoundedWindow | None = None
        self._window_data = b""
        self._cells: dict[userstate.StateSpec, RuntimeCell] = {}

    def get_state(
        self, state_spec: userstate.StateSpec, key: Any, window: BoundedWindow
    ) -> RuntimeCell:
        """Returns the state cell of a key and window. The object stays the same until :meth:`flush` is
        called or another key follows.
        """
        if key is not self._key or window is not self._window:
            self._switch_key(key, window)
        cell = self._cells.get(state_spec)
        if cell is None:
            cell = self._cells[state_spec] = self._create_cell(state_spec)
        return cell

    def get_timer(
        self,
        timer_spec: userstate.TimerSpec,
        key: Any,
        window: BoundedWindow,
        timestamp: Timestamp,
        pane: PaneInfo,
    ) -> UserTimer:
        """Returns a timer of a key and window. The timer object is valid while user code processes
        an element of this key and window.
        """
        if key is not self._key or window is not self._window:
            self._switch_key(key, window)
        return UserTimer(self, timer_spec, timestamp, pane)

    def set_timer(
        self, family: str, tag: str, fire_at: int | None, hold: int | None, pane: PaneInfo | None
    ) -> None:
        """Sets or clears a timer of the current key and window. Times are in milliseconds."""
        timer = StageTimer(
            transform_id=self._transform_id,
            family=family,
            tag=tag,
            key=self._get_encoded_key(),
            windows=(self._window_data,),
            fire_at=fire_at,
            hold=hold,
            pane=b"" if pane is None else _PANES.encode_nested(pane),
        )
        self._handler.user_state.set_timer(timer)

    def convert_due_timer(self, timer: StageTimer) -> userstate.Timer:
        """Converts a due timer to the form that Beam's operation processes, and switches to the
        timer's key and window.
        """
        if timer.key != self._key_data or timer.windows[0] != self._window_data:
            self.flush()
            self._key, self._key_data = self._key_impl.decode_nested(timer.key), timer.key
            self._window, self._window_data = self._decode_window(timer.windows[0])
        assert timer.fire_at is not None
        fires = Timestamp(micros=timer.fire_at * 1000)
        return userstate.Timer(
            user_key=self._key,
            dynamic_timer_tag=timer.tag,
            windows=(self._window,),
            clear_bit=False,
            fire_timestamp=fires,
            hold_timestamp=fires if timer.hold is None else Timestamp(micros=timer.hold * 1000),
            paneinfo=_PANES.decode_nested(timer.pane),
        )

    def flush(self) -> None:
        """Writes all changed cells to the runner."""
        for cell in self._cells.values():
            cell.flush()
        self._clear_current_key()

    def commit(self) -> None:
        """Writes all changed cells to the runner; Beam's operation calls this method when the bundle ends."""
        self.flush()

    def reset(self) -> None:
        """Drops the cached cells of a bundle, and tears down the CombineFns that were set up for
        combining state.

        Called between bundles, after a failure, and at the end.
        """
        self._clear_current_key()
        combine_fns, self._combine_fns = self._combine_fns, []
        self._kinds.clear()
        for combine_fn in combine_fns:
            combine_fn.teardown()

    def _switch_key(self, key: Any, window: BoundedWindow) -> None:
        """Switches to a key and window, and writes the changed cells of the previous key."""
        if self._is_current_key(key, window):
            self._key, self._window = key, window
            return
        before, before_data = self._window, self._window_data
        self.flush()
        self._key, self._window = key, window
        same = before is not None and (window is before or window == before)
        self._window_data = before_data if same else self._window_impl.encode_nested(window)

    def _is_current_key(self, key: Any, window: BoundedWindow) -> bool:
        if self._window is None or (window is not self._window and window != self._window):
            return False
        kind = type(key)
        if kind in EQUAL_IF_ENCODED_EQUAL:
            return kind is type(self._key) and bool(key == self._key)
        return bool(self._key_impl.encode_nested(key) == self._get_encoded_key())

    def _get_encoded_key(self) -> bytes:
        if self._key_data is None:
            self._key_data = self._key_impl.encode_nested(self._key)
        return self._key_data

    def _decode_window(self, data: bytes) -> tuple[BoundedWindow, bytes]:
        window = self._windows.get(data)
        if window is None:
            if len(self._windows) >= _KEPT_WINDOWS:
                self._windows.clear()
            window = self._windows[data] = self._window_impl.decode_nested(data)
        return window, data

    def _create_cell(self, spec: userstate.StateSpec) -> RuntimeCell:
        known = self._kinds.get(spec)
        if known is None:
            create = get_cell_factory(spec, self._set_up_combine_fn(spec))
            known = self._kinds[spec] = (create, spec.coder.get_impl())
        create, impl = known
        place = StateCell(self._transform_id, spec.name, self._window_data, self._get_encoded_key())
        return create(StoredCell(self._handler.user_state, place, impl))

    def _set_up_combine_fn(self, spec: userstate.StateSpec) -> core.CombineFn | None:
        if not isinstance(spec, userstate.CombiningValueStateSpec):
            return None
        combine_fn = copy.deepcopy(spec.combine_fn)
        combine_fn.setup()
        self._combine_fns.append(combine_fn)
        return combine_fn


def _convert_to_millis(time: Timestamp) -> int:
    """Returns the time of a timer in milliseconds, rounded down as in Beam's timer coder."""
    return int(time.micros // 1000)
