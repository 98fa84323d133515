"""Side inputs of one stage, read from committed files and kept by window and key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from beam_spark_executor.plan import SideInputUse
from beam_spark_executor.task.columns import from_bytes
from beam_spark_executor.task.files import Piece, read_pieces
from beam_spark_executor.task.grouping import group

_Entries = Mapping[bytes, Mapping[bytes, tuple[int, bytes]]]


class FileSideInputs:
    """Reads each side input once, when it is first asked for; in memory from then on.

    Implements ``beam_runner_worker.ports.SideInputReader``.
    """

    def __init__(self, uses: Sequence[SideInputUse], files: Mapping[str, Sequence[Piece]]) -> None:
        self._buffers = {(use.transform_id, use.tag): use.buffer_id for use in uses}
        self._files = files
        self._loaded: dict[str, _Entries] = {}

    def iterable(self, transform_id: str, tag: str, window: bytes) -> bytes:
        """All elements of a window: of an iterable side input, or the values of a multimap one."""
        return b"".join(blob for _, blob in self._window(transform_id, tag, window).values())

    def values(self, transform_id: str, tag: str, window: bytes, key: bytes) -> bytes:
        """All values of a key in a window."""
        return self._window(transform_id, tag, window).get(key, (0, b""))[1]

    def keys(self, transform_id: str, tag: str, window: bytes) -> bytes:
        """The distinct keys of a window."""
        return b"".join(self._window(transform_id, tag, window))

    def groups(
        self, transform_id: str, tag: str, window: bytes
    ) -> Iterator[tuple[bytes, int, bytes]]:
        """Each key of a window with the number and the bytes of its values."""
        for key, (count, blob) in self._window(transform_id, tag, window).items():
            yield key, count, blob

    def _window(
        self, transform_id: str, tag: str, window: bytes
    ) -> Mapping[bytes, tuple[int, bytes]]:
        buffer_id = self._buffers[transform_id, tag]
        if buffer_id not in self._loaded:
            self._loaded[buffer_id] = _load(self._files.get(buffer_id, ()))
        return self._loaded[buffer_id].get(window, {})


def _load(pieces: Sequence[Piece]) -> _Entries:
    batches = [from_bytes(data) for _, _, data in read_pieces(pieces)]
    if not batches:
        return {}
    groups = group(batches)
    keys = groups.keys.to_pylist()
    windows = groups.windows
    if isinstance(windows, bytes):
        windows = [windows] * len(groups)
    entries: dict[bytes, dict[bytes, tuple[int, bytes]]] = {}
    counts = groups.counts().tolist()
    blobs = groups.blobs().to_pylist()
    for key, window, count, blob in zip(keys, windows, counts, blobs, strict=True):
        entries.setdefault(window, {})[key] = (count, blob)
    return entries
