"""Side inputs of one stage: the data that the running bundle may see, read from rows on demand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from graphlib import TopologicalSorter
from pathlib import Path

from beam_runner_engine.scheduler.commands import SideInput
from beam_runner_engine.scheduler.data import Data
from beam_runner_model.buffers import SideInputUse
from beam_runner_model.value_pieces import ValuePieces
from beam_runner_model.window_coders import encode_window

from beam_runner_data.side_inputs.side_data import (
    InMemorySideInput,
    SideInputContent,
    read_latest_element,
    read_window_elements,
)
from beam_runner_data.side_inputs.side_index_build import open_index

IN_MEMORY_BYTES = 16 << 20
"""The maximum size in bytes of a side input in memory; larger side inputs use an index on disk."""

_Shown = Mapping[bytes, tuple[Data, ...]]
"""The data of each encoded window, in order of arrival."""


class BundleSideInputs:
    """Reader of the side inputs of a stage, for one bundle after another. Reads data only when user
    code needs it.

    Implements ``beam_runner_worker.ports.SideInputReader``. Data that doesn't change from one
    bundle to the next is loaded once.
    """

    def __init__(self, uses: Sequence[SideInputUse], folder: Path) -> None:
        self._uses = {(use.transform_id, use.tag): use for use in uses}
        self._folder = folder
        self._shown: dict[str, _Shown] = {}
        self._versions: dict[str, int] = {}
        self._elements: dict[str, dict[bytes, ValuePieces]] = {}
        self._keyed: dict[str, SideInputContent] = {}

    def set_visible_data(self, side_inputs: Iterable[SideInput]) -> None:
        """Sets the data that the next bundle may see, in place of the previous bundle's data."""
        shown: dict[str, dict[bytes, tuple[Data, ...]]] = {}
        for side_input in side_inputs:
            windows = shown.setdefault(side_input.name, {})
            windows[encode_window(side_input.window)] = side_input.data
        for use in self._uses.values():
            now = shown.get(use.name, {})
            if now != self._shown.get(use.name, {}):
                self._shown[use.name] = now
                self._versions[use.name] = self._versions.get(use.name, 0) + 1
                self._elements.pop(use.name, None)
                self._keyed.pop(use.name, None)

    def get_version(self, transform_id: str, tag: str) -> int:
        """Returns a number that changes when the visible data changes."""
        return self._versions.get(self._uses[transform_id, tag].name, 0)

    def read_iterable(self, transform_id: str, tag: str, window: bytes) -> bytes | ValuePieces:
        """Returns all elements of a window of an iterable side input."""
        use = self._uses[transform_id, tag]
        data = self._shown.get(use.name, {}).get(window, ())
        if use.latest:
            return read_latest_element(self._folder, data, window)
        if any(len(one.facts.windows or ()) != 1 for one in data):
            return self._load_content_by_key(use).read_values(window, b"")
        elements = self._elements.setdefault(use.name, {})
        if window not in elements:
            elements[window] = read_window_elements(self._folder, data)
        found = elements[window]
        if found.pieces > 1:
            return found
        return found.piece(0) if found.pieces else b""

    def read_values(
        self, transform_id: str, tag: str, window: bytes, key: bytes
    ) -> bytes | ValuePieces:
        return self._load_content_by_key(self._uses[transform_id, tag]).read_values(window, key)

    def read_keys(self, transform_id: str, tag: str, window: bytes) -> bytes | ValuePieces:
        return self._load_content_by_key(self._uses[transform_id, tag]).read_keys(window)

    def read_groups(self, transform_id: str, tag: str, window: bytes) -> bytes | ValuePieces:
        """Yields each key of a window with the number of its values and its values."""
        return self._load_content_by_key(self._uses[transform_id, tag]).read_groups(window)

    def _load_content_by_key(self, use: SideInputUse) -> SideInputContent:
        """Returns the content of all windows of a side input, which finds values by window and key."""
        keyed = self._keyed.get(use.name)
        if keyed is None:
            data = _order_data_of_windows(self._shown.get(use.name, {}).values())
            if sum(one.facts.size for one in data) <= IN_MEMORY_BYTES:
                keyed = InMemorySideInput.load_data(self._folder, data)
            else:
                keyed = open_index(self._folder, use.buffer_id, data)
            self._keyed[use.name] = keyed
        return keyed


def _order_data_of_windows(windows: Iterable[Sequence[Data]]) -> tuple[Data, ...]:
    """Returns the distinct data of all windows, in an order that respects the order of each window.

    Each window has its data in order of arrival, so the orders of all windows are consistent.
    """
    sorter: TopologicalSorter[Data] = TopologicalSorter()
    for data in windows:
        for place, one in enumerate(data):
            sorter.add(one, *data[max(0, place - 1) : place])
    return tuple(sorter.static_order())
