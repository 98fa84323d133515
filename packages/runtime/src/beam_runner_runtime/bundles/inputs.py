"""The input of a bundle as chunks of elements, and how its elements are numbered for splits."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence

import attrs
from beam_runner_data.rows.refs import RowsRef
from beam_runner_data.rows.row import elements_row, read_elements
from beam_runner_data.rows.written import element_data
from beam_runner_engine.scheduler.commands import Input
from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.events import Residual
from beam_runner_model.bundles import BundleSplit, ResidualElement
from beam_runner_model.chunks import ElementChunk
from beam_runner_model.times import clamp
from beam_runner_model.window_coders import SKIP_WINDOW, WindowCoder, decode_window
from beam_runner_model.windowed_values import (
    TIME_BYTES,
    compute_hold_time,
    copy_to_each_window,
    read_time,
    read_windows,
)

from beam_runner_runtime.bundles.bundle_data import RowSource


def element_chunks(rows: RowSource, inputs: Iterable[Input]) -> Iterator[ElementChunk]:
    """The elements of all inputs, row by row; rows outside what is meant are not decoded."""
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


def count_of(inputs: Iterable[Input]) -> int:
    """How many elements the inputs have in all."""
    return sum(one.data.facts.count for one in inputs)


def first_elements(inputs: Iterable[Input], count: int) -> tuple[Input, ...]:
    """The inputs up to, and without, the element of this number."""
    kept: list[Input] = []
    for one in inputs:
        mine = min(one.data.facts.count, count)
        if mine > 0:
            kept.append(attrs.evolve(one, data=_part(one.data, 0, mine)))
        count -= one.data.facts.count
    return tuple(kept)


@attrs.frozen
class InputWindows:
    """How the windows of what a stage reads are encoded.

    Attributes:
        coder: theirs.
        told: whether data must be of one window and tell it.
    """

    coder: WindowCoder
    told: bool = False


GLOBAL = InputWindows(WindowCoder.GLOBAL)
"""Those of an impulse."""


def left_by(split: BundleSplit, inputs: Sequence[Input], *, is_cut: bool) -> tuple[Input, ...]:
    """The inputs that a split has left, in which elements keep their numbers.

    Args:
        split: where the harness has split the bundle.
        inputs: as they were given to it.
        is_cut: whether a restriction was cut; what is kept of it is whole.
    """
    if not is_cut:
        return first_elements(inputs, split.first_residual)
    uncut = first_elements(inputs, split.last_primary + 1)
    cut = first_elements(inputs, split.first_residual)[-1]
    count = cut.data.facts.count
    last = attrs.evolve(cut, data=_part(cut.data, count - 1, count), whole=True)
    return (*uncut, last)


def input_of(inputs: Iterable[Input], element: int) -> Input:
    """Returns the input that has the element of this number; LookupError if none has it."""
    for one in inputs:
        if element < one.data.facts.count:
            return one
        element -= one.data.facts.count
    raise LookupError("the bundle has no such element")


def residuals_of(
    elements: Sequence[ResidualElement],
    name: str,
    windows: InputWindows = GLOBAL,
    *,
    whole: bool = False,
) -> tuple[Residual, ...]:
    """What a bundle deferred, as data of its own.

    Args:
        elements: the residuals.
        name: unique to them in the job.
        windows: of the elements.
        whole: whether no drain truncates them, see `Input`.
    """
    return tuple(
        Residual(data, delay=residual.delay_ms, watermark=residual.watermark, whole=whole)
        for number, residual in enumerate(elements)
        for data in _of_windows(residual.element, f"{name}/{number}", windows)
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
    """What a split bundle keeps of its inputs, and what it gives away.

    What it keeps of a restriction that was cut is whole: the rest may be processed before.

    Args:
        inputs: of the bundle, as they were given to it.
        split: where the harness has split it.
        name: unique to this split in the job.
        windows: as for `residuals_of`.
        truncated: whether the inputs are what is left of restrictions that were truncated.
        uncut: the primaries whose restriction was not cut.
    """
    kept = list(first_elements(inputs, split.last_primary + 1))
    given: list[Residual] = []
    start = 0
    for one in inputs:
        end = start + one.data.facts.count
        rest = max(start, split.first_residual)
        if rest < end:
            data = _part(one.data, rest - start, end - start)
            given.append(
                Residual(data, windows=one.windows, untouched=not truncated, whole=one.whole)
            )
        start = end
    if split.primaries or split.residuals:
        whole = input_of(inputs, split.last_primary + 1).whole
        kept += [
            Input(
                _element(element, f"{name}/primary/{number}", windows),
                whole=whole or element not in uncut,
            )
            for number, element in enumerate(split.primaries)
        ]
        given += residuals_of(split.residuals, f"{name}/residual", windows, whole=whole)
    return tuple(kept), tuple(given)


def _part(data: Data, first: int, last: int) -> Data:
    """Elements ``first`` to ``last`` of some data: itself where that is all of it."""
    count = data.facts.count
    if first == 0 and last == count:
        return data
    ref: RowsRef = data.ref
    part = attrs.evolve(ref, first=ref.first + first, last=ref.first + last)
    size = data.facts.size * (last - first) // count
    return Data(part, attrs.evolve(data.facts, count=last - first, size=size))


def _of_windows(element: bytes, name: str, windows: InputWindows) -> Iterator[Data]:
    """A windowed value as data; one in each of its windows if they must be told."""
    if not windows.told:
        yield _element(element, name, windows)
        return
    encoded = _windows_in(element, windows)
    for number, own in enumerate(copy_to_each_window(element, encoded)):
        data = _element(own, name if len(encoded) == 1 else f"{name}.{number}", windows)
        window = frozenset((decode_window(windows.coder, encoded[number]),))
        yield attrs.evolve(data, facts=attrs.evolve(data.facts, windows=window))


def _element(element: bytes, name: str, windows: InputWindows) -> Data:
    time = compute_hold_time(read_time(element), _windows_in(element, windows))
    chunk = ElementChunk(1, element, min_timestamp=clamp(time))
    return element_data(name, elements_row(0, chunk))


def _windows_in(element: bytes, windows: InputWindows) -> tuple[bytes, ...]:
    return read_windows(element, TIME_BYTES, SKIP_WINDOW[windows.coder])[0]
