"""Serves side inputs to Beam's bundle processor, decoded once and kept, from the host's reader."""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from apache_beam.coders import coder_impl, coders
from apache_beam.runners.worker import bundle_processor
from apache_beam.runners.worker.sdk_worker import CachingStateHandler

from beam_runner_worker._protos import beam_fn_api_pb2
from beam_runner_worker.embedded.lazy import LazyValues, decode_all
from beam_runner_worker.errors import HarnessError
from beam_runner_worker.ports import SideInputReader

_EAGER_BYTES = 64 * 1024
_KEPT_VIEWS = 1024


class SideInputs(CachingStateHandler):
    """What Beam asks for state, answered from a :class:`SideInputReader`.

    Side inputs do not change while a stage lives, so decoded values are kept across bundles: the
    least recently used go first when the encoded bytes of what is kept exceed ``cache_bytes``. A
    side input larger than that is decoded lazily, on every iteration.
    User state is not served; a stage with state never reaches this harness.

    Args:
        reader: the host's.
        stage_name: for error messages.
        cache_bytes: limit of encoded bytes whose decoded values are kept.
    """

    def __init__(
        self,
        reader: SideInputReader,
        stage_name: str,
        cache_bytes: int = 64 * 1024 * 1024,
    ) -> None:
        self._reader = reader
        self._stage_name = stage_name
        self._limit = cache_bytes
        self._kept: collections.OrderedDict[bytes, tuple[Iterable[Any], int]]
        self._kept = collections.OrderedDict()
        self._kept_bytes = 0
        self._coders: dict[tuple[str, str], coders.WindowedValueCoder] = {}

    def know(self, transform_id: str, tag: str, coder: coders.WindowedValueCoder) -> None:
        """Learns the windowed coder of a side input, which Beam knows when it builds the stage."""
        self._coders[transform_id, tag] = coder

    def blocking_get(
        self, state_key: beam_fn_api_pb2.StateKey, coder: coder_impl.CoderImpl
    ) -> Iterable[Any]:
        """The decoded values behind a state key; cost is about a microsecond when they are kept."""
        name = state_key.SerializeToString()
        kept = self._kept.get(name)
        if kept is not None:
            self._kept.move_to_end(name)
            return kept[0]
        kind = state_key.WhichOneof("type")
        if kind == "multimap_keys_values_side_input":
            return self._groups(state_key.multimap_keys_values_side_input)
        data = self._read(kind, state_key)
        if len(data) > self._limit:
            return LazyValues(coder, data)
        values = decode_all(coder, data)
        self._keep(name, values, len(data))
        return values

    def _read(self, kind: str | None, state_key: beam_fn_api_pb2.StateKey) -> bytes:
        if kind == "iterable_side_input":
            wanted = state_key.iterable_side_input
            return self._reader.iterable(*self._place(wanted))
        if kind == "multimap_side_input":
            wanted = state_key.multimap_side_input
            return self._reader.values(*self._place(wanted), wanted.key)
        if kind == "multimap_keys_side_input":
            return self._reader.keys(*self._place(state_key.multimap_keys_side_input))
        self._refuse(state_key)

    def _groups(self, wanted: Any) -> Iterator[tuple[Any, Iterable[Any]]]:
        """Keys with their values, one after the other; large values stay encoded."""
        element_coder = self._coders[wanted.transform_id, wanted.side_input_id].wrapped_value_coder
        key_impl = element_coder.key_coder().get_impl()
        value_impl = element_coder.value_coder().get_impl()
        for key, _, values in self._reader.groups(*self._place(wanted)):
            yield (
                key_impl.decode_nested(key),
                decode_all(value_impl, values)
                if len(values) <= _EAGER_BYTES
                else LazyValues(value_impl, values),
            )

    def _place(self, wanted: Any) -> tuple[str, str, bytes]:
        """Transform, tag and window; Beam asks with unnested windows, readers want nested ones."""
        transform_id, tag, window = wanted.transform_id, wanted.side_input_id, wanted.window
        coder = self._coders.get((transform_id, tag))
        if coder is not None and window:
            impl = coder.window_coder.get_impl()
            window = impl.encode_nested(impl.decode(window))
        return transform_id, tag, window

    def _keep(self, name: bytes, values: list[Any], size: int) -> None:
        self._kept[name] = (values, size)
        self._kept_bytes += size
        while self._kept_bytes > self._limit:
            _, (_, freed) = self._kept.popitem(last=False)
            self._kept_bytes -= freed

    def _refuse(self, state_key: beam_fn_api_pb2.StateKey) -> NoReturn:
        raise HarnessError(
            f"Stage {self._stage_name} asked for state that this harness does not serve: "
            f"{state_key.WhichOneof('type')} of {str(state_key).strip()!r}"
        )

    @contextlib.contextmanager
    def process_instruction_id(self, bundle_id: str, cache_tokens: Iterable[Any]) -> Iterator[None]:
        """Nothing depends on the bundle."""
        yield

    def extend(self, state_key: Any, coder: Any, elements: Iterable[Any]) -> NoReturn:
        """Refused: side inputs are read-only.

        Raises:
            HarnessError: always; it names the key.
        """
        self._refuse(state_key)

    def clear(self, state_key: Any) -> NoReturn:
        """Refused: side inputs are read-only.

        Raises:
            HarnessError: always; it names the key.
        """
        self._refuse(state_key)

    def done(self) -> None:
        """Nothing is open."""


class KeptSideInputMap(bundle_processor.StateBackedSideInputMap):
    """Beam's map of window to side input view, but views live as long as the stage.

    Beam forgets them after every bundle, so a dict would be built again for each.
    """

    def __init__(
        self,
        state_handler: Any,
        transform_id: str,
        tag: str,
        side_input_data: Any,
        coder: Any,
        use_bulk_read: bool = False,
    ) -> None:
        super().__init__(
            state_handler, transform_id, tag, side_input_data, coder, use_bulk_read=use_bulk_read
        )
        state_handler.know(transform_id, tag, coder)

    def reset(self) -> None:
        """Forgets nothing unless there are many views."""
        if len(self._cache) > _KEPT_VIEWS:
            super().reset()


@contextlib.contextmanager
def kept_side_inputs() -> Iterator[None]:
    """Within it, Beam builds stages with :class:`KeptSideInputMap`.

    Beam's constructor of ParDo operations looks the class up by its name in its own module and has
    no other way in.
    """
    before = bundle_processor.StateBackedSideInputMap
    bundle_processor.StateBackedSideInputMap = KeptSideInputMap
    try:
        yield
    finally:
        bundle_processor.StateBackedSideInputMap = before
