"""Serves side inputs to DoFns from the host's reader: decoded once, kept as long as the stage lives.

Beam's own map of side inputs forgets its views after every bundle, and its multimap mixes keys which
are equal in Python but not in their encoding (1, 1.0 and True). So the whole map is ours.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from apache_beam.coders import coder_impl, coders
from apache_beam.portability import common_urns
from apache_beam.pvalue import SideInputData
from apache_beam.runners.worker import bundle_processor
from apache_beam.runners.worker.sdk_worker import CachingStateHandler
from apache_beam.transforms import sideinputs, window

from beam_runner_worker.embedded.lazy import LazyValues, decode_all
from beam_runner_worker.errors import HarnessError
from beam_runner_worker.ports import SideInputReader

KEPT_BYTES = 64 * 1024 * 1024
"""Encoded bytes whose decoded values one side input keeps; what is larger is decoded each time."""
KEPT_VIEWS = 1024
"""Windows whose views one side input keeps from one bundle to the next."""


class SideInputs(CachingStateHandler):
    """Stands where Beam expects its state handler: carries the reader, and refuses user state.

    A stage with state never comes to this harness, so nothing but an error can ask for it.

    Attributes:
        reader_error: what the reader raised, if it did: the host's error, not user code's.
    """

    def __init__(self, reader: SideInputReader, stage_name: str) -> None:
        self.reader_error: BaseException | None = None
        self._reader = reader
        self._stage_name = stage_name

    def iterable(self, transform_id: str, tag: str, window: bytes) -> bytes:
        """As :meth:`SideInputReader.iterable`."""
        with self._remembered_errors():
            return self._reader.iterable(transform_id, tag, window)

    def values(self, transform_id: str, tag: str, window: bytes, key: bytes) -> bytes:
        """As :meth:`SideInputReader.values`."""
        with self._remembered_errors():
            return self._reader.values(transform_id, tag, window, key)

    @contextlib.contextmanager
    def _remembered_errors(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self.reader_error = error
            raise

    def blocking_get(self, state_key: Any, coder: coder_impl.CoderImpl) -> NoReturn:
        """Refuses.

        Raises:
            HarnessError: always; it names the kind of state.
        """
        self._refuse(state_key)

    def extend(self, state_key: Any, coder: Any, elements: Iterable[Any]) -> NoReturn:
        """Refuses, as :meth:`blocking_get`."""
        self._refuse(state_key)

    def clear(self, state_key: Any) -> NoReturn:
        """Refuses, as :meth:`blocking_get`."""
        self._refuse(state_key)

    def _refuse(self, state_key: Any) -> NoReturn:
        kind = state_key.WhichOneof("type")
        asked = getattr(state_key, kind) if kind else state_key
        raise HarnessError(
            f"{getattr(asked, 'transform_id', '') or self._stage_name} asked for state of the kind "
            f"{kind}, which the embedded harness does not serve"
        )

    @contextlib.contextmanager
    def process_instruction_id(self, bundle_id: str, cache_tokens: Iterable[Any]) -> Iterator[None]:
        """Nothing depends on the bundle."""
        yield

    def done(self) -> None:
        """Nothing is open."""


class IterableView:
    """All elements of a side input in one window; read and decoded when first iterated over.

    It pickles as a list, and Beam's coders write it as an iterable.
    """

    def __init__(
        self, reader: SideInputs, place: tuple[str, str, bytes], impl: coder_impl.CoderImpl
    ) -> None:
        self._reader = reader
        self._place = place
        self._impl = impl
        self._values: Iterable[Any] | None = None
        self.kept_bytes = 0

    def __iter__(self) -> Iterator[Any]:
        if self._values is None:
            self._values, self.kept_bytes = _decode(self._impl, self._reader.iterable(*self._place))
        return iter(self._values)

    def __reduce__(self) -> tuple[type[list[Any]], tuple[list[Any]]]:
        return (list, (list(self),))


coder_impl.FastPrimitivesCoderImpl.register_iterable_like_type(IterableView)


class MultimapView:
    """The values of each key of a side input in one window, by the key's encoding."""

    def __init__(
        self,
        reader: SideInputs,
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
        """The values of a key, re-iterable; empty if there is none."""
        encoded = self._encode_key(key)
        values = self._known.get(encoded)
        if values is None:
            data = self._reader.values(*self._place, encoded)
            values, size = _decode(self._value_impl, data)
            if self.kept_bytes > KEPT_BYTES:
                self._known.clear()
                self.kept_bytes = 0
            self._known[encoded] = values
            self.kept_bytes += size + len(encoded)
        return values

    def __reduce__(self) -> NoReturn:
        raise TypeError("A multimap side input cannot be pickled; copy what you need out of it")


def _decode(impl: coder_impl.CoderImpl, data: bytes) -> tuple[Iterable[Any], int]:
    """The values, lazy if there are too many bytes of them, and how many bytes are kept."""
    if len(data) > KEPT_BYTES:
        return LazyValues(impl, data), len(data)
    return decode_all(impl, data), len(data)


class SideInputMap:
    """One side input of a ParDo: gives for a window of the main input the view of the side input.

    Takes the place of Beam's ``StateBackedSideInputMap`` and has its constructor's arguments.
    """

    def __init__(
        self,
        state_handler: SideInputs,
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
        self._last: tuple[window.BoundedWindow | None, Any] = (None, None)

    def __getitem__(self, main_window: window.BoundedWindow) -> Any:
        """What user code sees: a value, list, dict, iterable or multimap."""
        last_window, last_view = self._last
        if main_window is last_window:
            return last_view
        target = self._data.window_mapping_fn(main_window)
        kept = self._views.get(target)
        if kept is None:
            raw = self._raw_view(target)
            kept = self._views[target] = (self._data.view_fn(raw), raw)
        self._last = (main_window, kept[0])
        return kept[0]

    def is_globally_windowed(self) -> bool:
        """Whether every window of the main input sees the same view."""
        return self._data.window_mapping_fn is sideinputs._global_window_mapping_fn

    def reset(self) -> None:
        """Called between bundles: forgets nothing unless too much is kept."""
        kept_bytes = sum(raw.kept_bytes for _, raw in self._views.values())
        if len(self._views) > KEPT_VIEWS or kept_bytes > KEPT_BYTES:
            self._views.clear()
            self._last = (None, None)

    def _raw_view(self, target: window.BoundedWindow) -> IterableView | MultimapView:
        place = (self._transform_id, self._tag, self._window_impl.encode_nested(target))
        pattern = self._data.access_pattern
        coder = self._element_coder
        if pattern == common_urns.side_inputs.ITERABLE.urn:
            return IterableView(self._reader, place, coder.get_impl())
        if pattern == common_urns.side_inputs.MULTIMAP.urn:
            key_impl = coder.key_coder().get_impl()
            return MultimapView(self._reader, place, key_impl, coder.value_coder().get_impl())
        raise HarnessError(
            f"{self._transform_id} reads its side input {self._tag} by the unknown access pattern "
            f"{pattern}"
        )


@contextlib.contextmanager
def our_side_inputs() -> Iterator[None]:
    """Within it, Beam builds ParDo operations with :class:`SideInputMap`.

    Beam looks its own class up by name in its module and has no other way in.
    """
    before = bundle_processor.StateBackedSideInputMap
    bundle_processor.StateBackedSideInputMap = SideInputMap
    try:
        yield
    finally:
        bundle_processor.StateBackedSideInputMap = before
