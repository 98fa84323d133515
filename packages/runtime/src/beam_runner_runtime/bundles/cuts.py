"""Detection of primaries that a split left unchanged: the split divided the element's windows, and
not the restriction.

If a DoFn reads windows, an SDK processes an element window by window. When such an SDK splits the
element, it returns the finished windows as a primary and the windows that haven't started as a
residual, both with the unchanged restriction.
"""

from __future__ import annotations

from collections.abc import Sequence

from beam_runner_engine.scheduler.commands import Input
from beam_runner_model.bundles import BundleSplit
from beam_runner_model.lengths import Skip
from beam_runner_model.window_coders import SKIP_WINDOW
from beam_runner_model.windowed_values import TIME_BYTES, skip_windows

from beam_runner_runtime.bundles.bundle_data import RowSource
from beam_runner_runtime.bundles.inputs import (
    InputWindows,
    find_input_of_element,
    read_element_chunks,
)


def find_unchanged_primaries(
    split: BundleSplit, inputs: Sequence[Input], rows: RowSource, windows: InputWindows
) -> frozenset[bytes]:
    """Returns the primaries whose restriction is unchanged, because the split only distributed the
    windows.

    Args:
        inputs: inputs of the bundle, as the harness received them.
    """
    if not split.primaries:
        return frozenset()
    skip = SKIP_WINDOW[windows.coder]
    left = {_strip_windows(residual.element, skip) for residual in split.residuals}
    found = {one for one in split.primaries if _strip_windows(one, skip) in left}
    if len(split.primaries) > 1:
        source = find_input_of_element(inputs, split.last_primary + 1)
        for chunk in read_element_chunks(rows, (source,)):
            data = bytes(chunk.data)
            found |= {one for one in split.primaries if _strip_windows(one, skip) in data}
    return frozenset(found)


def _strip_windows(element: bytes, skip: Skip) -> bytes:
    """Returns the encoded pane and value of a windowed value, without timestamp and windows."""
    return element[skip_windows(element, TIME_BYTES, skip) :]
