"""Position of a Spark stream: the checkpoint files of a Structured Streaming query, encoded as one
element.

An attempt at a bundle writes these files to a new folder, from which a query continues. Checkpoint
logs grow, so the element contains only the files that a continued query reads: the last two
batches, and the log files of the source from the last compacted file on.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

import attrs

_LOGS = ("offsets", "commits")
_KEPT_BATCHES = 2
_COMPACT = ".compact"
_ALWAYS = (1980, 1, 1, 0, 0, 0)


@attrs.frozen
class StreamPosition:
    """The position at which to continue a stream. Without files, it is the beginning.

    Attributes:
        files: the contents of the checkpoint's files by path.
    """

    files: Mapping[str, bytes] = attrs.field(factory=dict, repr=False)

    @classmethod
    def read_checkpoint(cls, folder: Path) -> StreamPosition:
        """Returns the position in a checkpoint folder. No query may be writing there, except a waiting one."""
        found = {
            path.relative_to(folder).as_posix(): path
            for path in sorted(folder.rglob("*"))
            if path.is_file() and not path.name.startswith(".")
        }
        dropped = set(_list_unused_checkpoint_files(found))
        return cls({name: path.read_bytes() for name, path in found.items() if name not in dropped})

    @classmethod
    def from_bytes(cls, element: bytes) -> StreamPosition:
        """Returns the position that `to_bytes` encoded; the empty element is the beginning."""
        if not element:
            return cls()
        with zipfile.ZipFile(io.BytesIO(element)) as archive:
            return cls({name: archive.read(name) for name in archive.namelist()})

    def to_bytes(self) -> bytes:
        """Returns the encoded position, which a PCollection can contain; equal positions have equal bytes."""
        written = io.BytesIO()
        with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in sorted(self.files.items()):
                archive.writestr(zipfile.ZipInfo(name, _ALWAYS), content, zipfile.ZIP_DEFLATED)
        return written.getvalue()

    def write_checkpoint(self, folder: Path) -> None:
        """Creates a checkpoint with this position in a new folder."""
        folder.mkdir(parents=True)
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def _list_unused_checkpoint_files(names: Mapping[str, Path]) -> Iterator[str]:
    """Returns the checkpoint files that a continued query doesn't read."""
    logs: dict[str, dict[int, list[str]]] = {}
    for name in names:
        path = PurePosixPath(name)
        number = path.name.removesuffix(_COMPACT)
        if number.isdecimal():
            logs.setdefault(path.parent.as_posix(), {}).setdefault(int(number), []).append(name)
    for log, batches in logs.items():
        if log in _LOGS:
            first = min(sorted(batches)[-_KEPT_BATCHES:])
        else:
            compacted = [n for n, files in batches.items() if any(map(_is_compact_file, files))]
            first = max(compacted, default=0)
        yield from (name for number, files in batches.items() if number < first for name in files)


def _is_compact_file(name: str) -> bool:
    return name.endswith(_COMPACT)
