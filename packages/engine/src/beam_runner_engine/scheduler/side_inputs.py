"""Side inputs: the readable windows, the work that waits for windows, and the versions of
side-input data that bundles read.

Each work item needs one window of each side input of its stage. The work waits in
`SideInputState.waiting` for the first window that is not readable yet, and is checked again when this
window becomes readable. A readable window stays readable, because watermarks never decrease.

Side-input windows are compared after `clip_window_to_time_bounds`. Commands contain the original windows
of the data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

from beam_runner_model.times import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp, add_clamped_duration
from beam_runner_model.window_coders import encode_window
from beam_runner_model.windows import IntervalWindow, Window, clip_window_to_time_bounds

from beam_runner_engine.scheduler.checkpoints import schedule_checkpoints
from beam_runner_engine.scheduler.commands import SideInput
from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.errors import HostCodeError
from beam_runner_engine.scheduler.events import Output
from beam_runner_engine.scheduler.pieces import add_data_piece_reference, drop_data_piece_reference
from beam_runner_engine.scheduler.specs import SideInputReadiness
from beam_runner_engine.scheduler.state import (
    Need,
    SchedulerState,
    SideInputState,
    SideInputView,
    StageState,
    Work,
)

Groups = list[tuple[frozenset[Window] | None, tuple[Need, ...]]]


def group_by_needed_windows(stage: StageState, windows: frozenset[Window] | None) -> Groups:
    """Groups the windows of the main input by the side-input windows that these windows need.

    A result with one group means that the data needs no separation by window.
    """
    if not stage.sides:
        return [(windows, ())]
    if not windows:
        return [(windows, _find_needed_windows(stage, None))]
    groups: dict[tuple[Need, ...], set[Window]] = {}
    for window in sorted(windows, key=get_window_sort_key):
        groups.setdefault(_find_needed_windows(stage, window), set()).add(window)
    return [(frozenset(members), needs) for needs, members in groups.items()]


def _find_needed_windows(stage: StageState, window: Window | None) -> tuple[Need, ...]:
    return tuple(
        (place, _map_to_side_input_window(stage, side, window))
        for place, side in enumerate(stage.sides)
    )


def _map_to_side_input_window(
    stage: StageState, side: SideInputState, window: Window | None
) -> Window | None:
    try:
        found = side.spec.mapping.map_window(window)
    except Exception as error:
        code = f"the window mapping of side input {side.spec.name!r}"
        raise HostCodeError(stage.spec.name, code, f"failed with the error {error!r}") from error
    return found and clip_window_to_time_bounds(found)


def _list_side_input_windows(data: Data) -> list[Window]:
    """Returns the side-input windows of some data, in a deterministic order."""
    return sorted(
        set(map(clip_window_to_time_bounds, data.facts.windows or ())), key=get_window_sort_key
    )


def get_window_sort_key(window: Window) -> tuple[Timestamp, bytes]:
    """Returns a sort key for windows of a collection that is equal in every process."""
    return window.max_timestamp(), encode_window(window)


def is_window_readable(state: SchedulerState, stage: StageState, need: Need) -> bool:
    """Returns whether a window of a side input is readable."""
    place, window = need
    side = stage.sides[place]
    watermark = state.collections[side.spec.collection].watermark
    if watermark == MAX_TIMESTAMP:
        return True
    if window is None:
        return False
    if watermark > window.max_timestamp():
        return True
    return side.spec.readiness is SideInputReadiness.FIRST_PANE and window in side.pieces


def find_unreadable_window(state: SchedulerState, stage: StageState, work: Work) -> Need | None:
    """Returns the first side-input window that the work must wait for, or None if all are readable."""
    for need in work.needs:
        if not is_window_readable(state, stage, need):
            return need
    return None


def add_waiting_work(stage: StageState, need: Need, shard: int | None, work: Work) -> None:
    """Adds work to the queue of a side-input window."""
    place, window = need
    side = stage.sides[place]
    waiting = side.waiting.get(window)
    if waiting is None:
        waiting = side.waiting[window] = []
        if window is not None:
            heappush(side.ends, (*get_window_sort_key(window), window))
    waiting.append((shard, work))


def pop_readable_work(
    side: SideInputState, watermark: Timestamp
) -> Iterator[tuple[int | None, Work]]:
    """Removes and yields the work (with its shard) that can proceed at the side input's new
    watermark.
    """
    while side.ends and (side.ends[0][0] < watermark or watermark == MAX_TIMESTAMP):
        yield from side.waiting.pop(heappop(side.ends)[2], ())
    if watermark == MAX_TIMESTAMP:
        yield from side.waiting.pop(None, ())


def add_side_input_data(
    state: SchedulerState, stage: StageState, side: SideInputState, piece: int
) -> list[tuple[int | None, Work]]:
    """Adds data to a side input, and returns the work (with its shard) that can now proceed.

    Data of expired windows is ignored.
    """
    free: list[tuple[int | None, Work]] = []
    for window in _list_side_input_windows(state.pieces[piece].data):
        pieces = _get_open_window(stage, side, window)
        if pieces is None:
            continue
        pieces.append(piece)
        add_data_piece_reference(state, piece)
        view = side.views.get(window)
        if view is not None and view.updating:
            schedule_checkpoints(state, stage, view)
        _invalidate_side_input_view(state, side, window)
        if side.spec.readiness is SideInputReadiness.FIRST_PANE:
            free.extend(side.waiting.pop(window, ()))
            # Don't remove the window's entry from `ends`, because an entry without waiting work does no harm.
    return free


def restore_side_input_window(
    state: SchedulerState,
    stage: StageState,
    side: SideInputState,
    window: Window,
    added: Iterable[int],
) -> None:
    """Restores the data of a side-input window from another scheduler, unless the window has
    expired.
    """
    pieces = _get_open_window(stage, side, window)
    if pieces is not None:
        for piece in added:
            pieces.append(piece)
            add_data_piece_reference(state, piece)


def _get_open_window(stage: StageState, side: SideInputState, window: Window) -> list[int] | None:
    """Returns the data of a side-input window, or None if the window has expired."""
    last_needed = add_clamped_duration(window.max_timestamp(), side.spec.retention)
    if _is_window_expired(last_needed, stage.input):
        return None
    pieces = side.pieces.get(window)
    if pieces is None:
        pieces = side.pieces[window] = []
        heappush(side.expiries, (last_needed, encode_window(window), window))
    return pieces


def drop_replaced_data(state: SchedulerState, outputs: Iterable[Output]) -> None:
    """Removes data of side inputs that the outputs of a commit replace.

    Bundles keep their views of the removed data. The views become outdated when `add_side_input_data` adds the
    new data.
    """
    windows: dict[str, dict[Window, None]] = {}
    for output in outputs:
        if not state.collections[output.collection].node.side_consumers:
            continue
        known = dict.fromkeys(_list_side_input_windows(output.data))
        windows.setdefault(output.collection, {}).update(known)
    for name, replaced in windows.items():
        for number, place in state.collections[name].node.side_consumers:
            side = state.stages[number].sides[place]
            if not side.spec.replaces:
                continue
            for window in replaced:
                for piece in side.pieces.get(window, ()):
                    drop_data_piece_reference(state, piece)
                if window in side.pieces:
                    side.pieces[window] = []


def create_side_input_views(
    state: SchedulerState, stage: StageState, work: Iterable[Work]
) -> tuple[tuple[SideInput, ...], list[SideInputView]]:
    """Returns the side inputs that a bundle reads, and references to the side-input data. The
    caller must release the references when the bundle closes.
    """
    needs: dict[Need, None] = {}
    for item in work:
        for place, window in item.needs:
            if window is not None:
                needs[place, window] = None
            else:
                needs.update(dict.fromkeys((place, known) for known in stage.sides[place].pieces))
    return _create_needed_side_input_views(state, stage, needs)


def create_all_side_input_views(
    state: SchedulerState, stage: StageState
) -> tuple[tuple[SideInput, ...], list[SideInputView]]:
    """Returns all side-input data of a stage, and references to the data, which must be released when
    the bundle closes.
    """
    places = enumerate(stage.sides)
    return _create_needed_side_input_views(
        state, stage, ((place, window) for place, side in places for window in side.pieces)
    )


def _create_needed_side_input_views(
    state: SchedulerState, stage: StageState, needs: Iterable[Need]
) -> tuple[tuple[SideInput, ...], list[SideInputView]]:
    inputs: list[SideInput] = []
    views: list[SideInputView] = []
    for place, window in needs:
        assert window is not None
        side = stage.sides[place]
        view = side.views.get(window)
        if view is None:
            updating = side.spec.readiness is SideInputReadiness.FIRST_PANE
            view = side.views[window] = _create_side_input_view(
                state, side.pieces.get(window, ()), updating
            )
        view.uses += 1
        views.append(view)
        inputs.append(
            SideInput(side.spec.name, _find_original_window(view.data, window), view.data)
        )
    return tuple(inputs), views


def _find_original_window(data: Iterable[Data], window: Window) -> Window:
    """Returns a side-input window as the SDK encoded it, which can start before `MIN_TIMESTAMP`."""
    if not isinstance(window, IntervalWindow) or window.start > MIN_TIMESTAMP:
        return window
    known = (
        one for each in data for one in sorted(each.facts.windows or (), key=get_window_sort_key)
    )
    return next((one for one in known if clip_window_to_time_bounds(one) == window), window)


def release_side_input_views(state: SchedulerState, views: Iterable[SideInputView]) -> None:
    """Releases the references of a closed bundle to its side-input data."""
    for view in views:
        view.uses -= 1
        _drop_unused_side_input_view(state, view)


def drop_expired_windows(state: SchedulerState, stage: StageState) -> None:
    """Removes the side-input windows that expired at the stage's input watermark."""
    for side in stage.sides:
        while side.expiries and _is_window_expired(side.expiries[0][0], stage.input):
            window = heappop(side.expiries)[2]
            for piece in side.pieces.pop(window):
                drop_data_piece_reference(state, piece)
            _invalidate_side_input_view(state, side, window)


def _is_window_expired(last_needed: Timestamp, watermark: Timestamp) -> bool:
    return last_needed < watermark or watermark == MAX_TIMESTAMP


def _create_side_input_view(
    state: SchedulerState, pieces: Iterable[int], updating: bool
) -> SideInputView:
    data = tuple(state.pieces[piece].data for piece in pieces)
    view = SideInputView(tuple(pieces), data, updating=updating)
    for piece in view.pieces:
        add_data_piece_reference(state, piece)
    return view


def _invalidate_side_input_view(
    state: SchedulerState, side: SideInputState, window: Window
) -> None:
    view = side.views.pop(window, None)
    if view is not None:
        view.current = False
        _drop_unused_side_input_view(state, view)


def _drop_unused_side_input_view(state: SchedulerState, view: SideInputView) -> None:
    if not view.current and not view.uses:
        for piece in view.pieces:
            drop_data_piece_reference(state, piece)
