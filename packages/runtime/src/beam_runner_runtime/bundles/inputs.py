"""Input of a bundle as chunks of elements. If the bundle is split, the input is divided into the
part that the bundle processes and the rest. Elements have indexes that count from the start of the
bundle.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence

import attrs
from beam_runner_data.rows.refs import RowsRef
from beam_runner_data.rows.row import build_element_row, read_elements
from beam_runner_data.rows.written import build_inline_data
from beam_runner_engine.scheduler.commands import Input
from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.events import Residual
from beam_runner_model.bundles import BundleSplit, ResidualElement
from beam_runner_model.chunks import ElementChunk
from beam_runner_model.times import clamp_timestamp
from beam_runner_model.window_coders import SKIP_WINDOW, WindowCoder, decode_window
from beam_runner_model.windowed_values import (
    TIME_BYTES,
    compute_hold_time,
    copy_value_to_each_window,
    read_event_time,
    read_windows,
)

from beam_runner_runtime.bundles.bundle_data import RowSource


def read_element_chunks(rows: RowSource, inputs: Iterable[Input]) -> Iterator[ElementChunk]:
    """Yields the elements of all inputs, with one chunk for each row. Skips elements outside of the
    range that an input refers to.
    """
    for one in inputs:
        ref: RowsRef = one.data.ref
        passed = 0
        for _, data in rows(ref):
            chunk = read_elements(data)
            first = max(0, ref.first - passed)
            last = chunk.count if ref.last is None else min(chunk.count, ref.last - passed)
            passed += chunk.count
            if first >= last:
                continue
            whole = first == 0 and last == chunk.count
            yield chunk if whole else attrs.evolve(chunk, first=first, last=last)


def count_elements(inputs: Iterable[Input]) -> int:
    """Returns the total number of elements in the inputs."""
    return sum(one.data.facts.count for one in inputs)


def take_first_elements(inputs: Iterable[Input], count: int) -> tuple[Input, ...]:
    """Returns the first ``count`` elements of the inputs."""
    kept: list[Input] = []
    for one in inputs:
        mine = min(one.data.facts.count, count)
        if mine > 0:
            kept.append(attrs.evolve(one, data=_slice_data(one.data, 0, mine)))
        count -= one.data.facts.count
    return tuple(kept)


@attrs.frozen
class InputWindows:
    """Encoding of the windows in a stage's input.

    Attributes:
        is_split_by_window: whether each chunk of data must contain elements of only one window, and name that
            window.
    """

    coder: WindowCoder
    is_split_by_window: bool = False


GLOBAL = InputWindows(WindowCoder.GLOBAL)
"""Window encoding for the input of an impulse."""


def list_remaining_inputs(
    split: BundleSplit, inputs: Sequence[Input], *, is_cut: bool
) -> tuple[Input, ...]:
    """Returns the part of the inputs that stays in the bundle after a split. The indexes of
    elements don't change.

    Args:
        inputs: inputs as the harness received them.
        is_cut: whether the harness split a restriction; its primary is then marked, so that a drain
            doesn't truncate it.
    """
    if not is_cut:
        return take_first_elements(inputs, split.first_residual)
    uncut = take_first_elements(inputs, split.last_primary + 1)
    cut = take_first_elements(inputs, split.first_residual)[-1]
    count = cut.data.facts.count
    last = attrs.evolve(cut, data=_slice_data(cut.data, count - 1, count), whole=True)
    return (*uncut, last)


def find_input_of_element(inputs: Iterable[Input], element: int) -> Input:
    """Returns the input that contains the element with the index ``element`` in the bundle.

    Raises:
        LookupError: No input contains the element.
    """
    for one in inputs:
        if element < one.data.facts.count:
            return one
        element -= one.data.facts.count
    raise LookupError("the split refers to an element index beyond the end of the bundle's input")


def make_residual_inputs(
    elements: Sequence[ResidualElement],
    name: str,
    windows: InputWindows = GLOBAL,
    *,
    whole: bool = False,
) -> tuple[Residual, ...]:
    """Returns the residuals (deferred elements) of a bundle as new input data for the scheduler.

    Args:
        name: name that is unique in the job.
        whole: whether a drain must not truncate the residuals, see `Input`.
    """
    return tuple(
        Residual(data, delay=residual.delay_ms, watermark=residual.watermark, whole=whole)
        for number, residual in enumerate(elements)
        for data in _make_data_per_window(residual.element, f"{name}/{number}", windows)
    )


def split_inputs(
    inputs: Sequence[Input],
    split: BundleSplit,
    name: str,
    windows: InputWindows = GLOBAL,
    *,
    truncated: bool = False,
    uncut: Container[bytes] = (),
) -> tuple[tuple[Input, ...], tuple[Residual, ...]]:
    """Splits the inputs of a bundle into the part that stays in the bundle and the residuals.

    The primary of a split restriction is marked, so that a drain doesn't truncate it: the residual
    can already be processed.

    Args:
        inputs: inputs of the bundle, as the harness received them.
        name: name of this split that is unique in the job.
        windows: window encoding, as for `make_residual_inputs`.
        uncut: the primaries whose restriction is unchanged.
    """
    kept = list(take_first_elements(inputs, split.last_primary + 1))
    given: list[Residual] = []
    start = 0
    for one in inputs:
        end = start + one.data.facts.count
        rest = max(start, split.first_residual)
        if rest < end:
            data = _slice_data(one.data, rest - start, end - start)
            given.append(
                Residual(data, windows=one.windows, untouched=not truncated, whole=one.whole)
            )
        start = end
    if split.primaries or split.residuals:
        whole = find_input_of_element(inputs, split.last_primary + 1).whole
        kept += [
            Input(
                _make_element_data(element, f"{name}/primary/{number}", windows),
                whole=whole or element not in uncut,
            )
            for number, element in enumerate(split.primaries)
        ]
        given += make_residual_inputs(split.residuals, f"{name}/residual", windows, whole=whole)
    return tuple(kept), tuple(given)


def _slice_data(data: Data, first: int, last: int) -> Data:
    """Returns elements ``first`` to ``last`` of some data, or the data itself if the range covers
    all elements.
    """
    count = data.facts.count
    if first == 0 and last == count:
        return data
    ref: RowsRef = data.ref
    part = attrs.evolve(ref, first=ref.first + first, last=ref.first + last)
    size = data.facts.size * (last - first) // count
    return Data(part, attrs.evolve(data.facts, count=last - first, size=size))


def _make_data_per_window(element: bytes, name: str, windows: InputWindows) -> Iterator[Data]:
    """Yields a windowed value as input data. If the data must declare its window, yields a separate
    piece of data for each window.
    """
    if not windows.is_split_by_window:
        yield _make_element_data(element, name, windows)
        return
    encoded = _split_windows(element, windows)
    for number, own in enumerate(copy_value_to_each_window(element, encoded)):
        data = _make_element_data(own, name if len(encoded) == 1 else f"{name}.{number}", windows)
        window = frozenset((decode_window(windows.coder, encoded[number]),))
        yield attrs.evolve(data, facts=attrs.evolve(data.facts, windows=window))


def _make_element_data(element: bytes, name: str, windows: InputWindows) -> Data:
    time = compute_hold_time(read_event_time(element), _split_windows(element, windows))
    chunk = ElementChunk(1, element, min_timestamp=clamp_timestamp(time))
    return build_inline_data(name, build_element_row(0, chunk))


def _split_windows(element: bytes, windows: InputWindows) -> tuple[bytes, ...]:
    return read_windows(element, TIME_BYTES, SKIP_WINDOW[windows.coder])[0]
