"""Side inputs of DoFns. The module reads side inputs from the runner, decodes them once, and caches
them until they change.

Beam's own implementation drops all side inputs after every bundle. Beam's multimap mixes keys that
are equal in Python but have different encodings (1, 1.0 and True). So this module replaces it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from apache_beam.coders import coder_impl, coders
from apache_beam.portability import common_urns
from apache_beam.pvalue import SideInputData
from apache_beam.transforms import sideinputs, window
from beam_runner_model.value_pieces import ValuePieces
from beam_runner_worker.errors import HarnessError

from beam_runner_embedded.lazy import LazyValues, decode_all
from beam_runner_embedded.state_handler import StateHandler

KEPT_BYTES = 64 * 1024 * 1024
"""Maximum encoded size in bytes of the values that a side input caches in decoded form. Larger values
are decoded at each read.
"""
KEPT_VIEWS = 1024
"""Maximum number of windows whose views a side input caches across bundles."""
_NONE = object()


class IterableView:
    """All elements of a side input in one window, which are read and decoded at the first iteration.

    The view pickles as a list, and Beam's coders write it as an iterable.
    """

    def __init__(
        self, reader: StateHandler, place: tuple[str, str, bytes], impl: coder_impl.CoderImpl
    ) -> None:
        self._reader = reader
        self._place = place
        self._impl = impl
        self._values: Iterable[Any] | None = None
        self.kept_bytes = 0

    def __iter__(self) -> Iterator[Any]:
        if self._values is None:
            self._values, self.kept_bytes = _decode_values(
                self._impl, self._reader.read_iterable(*self._place)
            )
        return iter(self._values)

    def __reduce__(self) -> tuple[type[list[Any]], tuple[list[Any]]]:
        return (list, (list(self),))


coder_impl.FastPrimitivesCoderImpl.register_iterable_like_type(IterableView)


class MultimapView:
    """The values of each key of a side input in one window, by the key's encoding."""

    def __init__(
        self,
        reader: StateHandler,
        place: tuple[str, str, bytes],
        key_impl: coder_impl.CoderImpl,
        value_impl: coder_impl.CoderImpl,
    ) -> None:
        self._reader = reader
        self._place = place
        self._encode_key = key_impl.encode_nested
        self._value_impl = value_impl
        self._known: dict[bytes, Iterable[Any]] = {}
        self.kept_bytes = 0

    def __getitem__(self, key: Any) -> Iterable[Any]:
        """Returns the values of a key, re-iterable; empty for an unknown key."""
        encoded = self._encode_key(key)
        values = self._known.get(encoded)
        if values is None:
            data = self._reader.read_values(*self._place, encoded)
            values, size = _decode_values(self._value_impl, data)
            if self.kept_bytes > KEPT_BYTES:
                self._known.clear()
                self.kept_bytes = 0
            self._known[encoded] = values
            self.kept_bytes += size + len(encoded)
        return values

    def __reduce__(self) -> NoReturn:
        raise TypeError("A multimap side input can't be pickled; copy the needed values first")


def _decode_values(
    impl: coder_impl.CoderImpl, data: bytes | ValuePieces
) -> tuple[Iterable[Any], int]:
    """Returns the decoded values and the number of cached bytes. Values above the size limit are decoded lazily."""
    size = len(data)
    if size > KEPT_BYTES:
        return LazyValues(impl, data), size if isinstance(data, bytes) else 0
    if isinstance(data, bytes):
        return decode_all(impl, data), size
    values: list[Any] = []
    for number in range(data.pieces):
        values += decode_all(impl, data.piece(number))
    return values, size


class SideInputMap:
    """Side input of a ParDo, which maps a window of the main input to the object that user code gets.

    The class replaces Beam's ``StateBackedSideInputMap`` and has the same constructor arguments.
    """

    def __init__(
        self,
        state_handler: StateHandler,
        transform_id: str,
        tag: str,
        side_input_data: SideInputData,
        coder: coders.WindowedValueCoder,
        use_bulk_read: bool = False,
    ) -> None:
        self._reader = state_handler
        self._transform_id = transform_id
        self._tag = tag
        self._data = side_input_data
        self._element_coder = coder.wrapped_value_coder
        self._window_impl = coder.window_coder.get_impl()
        self._views: dict[window.BoundedWindow, tuple[Any, IterableView | MultimapView]] = {}
        self._by_main_window: dict[window.BoundedWindow, Any] = {}
        self._last: tuple[window.BoundedWindow | None, Any] = (None, None)
        self._version = state_handler.get_version(transform_id, tag)
        state_handler.views.append(self)

    def __getitem__(self, main_window: window.BoundedWindow) -> Any:
        """Returns the object that user code gets: a value, list, dict, iterable or multimap."""
        last_window, last_view = self._last
        if main_window is last_window:
            return last_view
        # Cache the result, because Beam's window mapping takes 10 µs.
        view = self._by_main_window.get(main_window, _NONE)
        if view is _NONE:
            if len(self._by_main_window) >= KEPT_VIEWS:
                self._by_main_window.clear()
            view = self._by_main_window[main_window] = self._get_view(main_window)
        self._last = (main_window, view)
        return view

    def _get_view(self, main_window: window.BoundedWindow) -> Any:
        target = self._data.window_mapping_fn(main_window)
        kept = self._views.get(target)
        if kept is None:
            raw = self._create_raw_view(target)
            kept = self._views[target] = (self._data.view_fn(raw), raw)
        return kept[0]

    def is_globally_windowed(self) -> bool:
        """Returns True if all windows of the main input see the same view in all bundles.

        For a global side input, Beam requests the view only once.
        """
        global_mapping = self._data.window_mapping_fn is sideinputs._global_window_mapping_fn
        return global_mapping and not self._reader.changing

    def is_current(self) -> bool:
        """Returns True if the cached data is still current."""
        return self._reader.get_version(self._transform_id, self._tag) == self._version

    def reset(self) -> None:
        """Drops the cached data if the side input has changed, or if the cache is too large. Called between bundles."""
        kept_bytes = sum(raw.kept_bytes for _, raw in self._views.values())
        if len(self._views) > KEPT_VIEWS or kept_bytes > KEPT_BYTES or not self.is_current():
            self._views.clear()
            self._by_main_window.clear()
            self._last = (None, None)
            self._version = self._reader.get_version(self._transform_id, self._tag)

    def _create_raw_view(self, target: window.BoundedWindow) -> IterableView | MultimapView:
        place = (self._transform_id, self._tag, self._window_impl.encode_nested(target))
        pattern = self._data.access_pattern
        coder = self._element_coder
        if pattern == common_urns.side_inputs.ITERABLE.urn:
            return IterableView(self._reader, place, coder.get_impl())
        if pattern == common_urns.side_inputs.MULTIMAP.urn:
            key_impl = coder.key_coder().get_impl()
            return MultimapView(self._reader, place, key_impl, coder.value_coder().get_impl())
        raise HarnessError(
            f"{self._transform_id} reads its side input {self._tag} with the unknown"
            f" access pattern {pattern}"
        )
