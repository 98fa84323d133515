"""How far a stream was read: what Spark has written into the checkpoint of a query, as one element.

So any attempt can go on from there, in a folder of its own. Of a log that grows it has what a query that goes on reads:
the last two batches, and the files of a source from the last one on that has all before it.
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
class Position:
    """Where a stream is to be read on; without any files, at its beginning.

    Attributes:
        files: what is in the checkpoint's folder, by path.
    """

    files: Mapping[str, bytes] = attrs.field(factory=dict, repr=False)

    @classmethod
    def of_folder(cls, folder: Path) -> Position:
        """What the checkpoint in a folder says. No query may be writing there but one that waits."""
        found = {
            path.relative_to(folder).as_posix(): path
            for path in sorted(folder.rglob("*"))
            if path.is_file() and not path.name.startswith(".")
        }
        dropped = set(_superfluous(found))
        return cls({name: path.read_bytes() for name, path in found.items() if name not in dropped})

    @classmethod
    def from_bytes(cls, element: bytes) -> Position:
        """What `to_bytes` gave; of the empty element the beginning."""
        if not element:
            return cls()
        with zipfile.ZipFile(io.BytesIO(element)) as archive:
            return cls({name: archive.read(name) for name in archive.namelist()})

    def to_bytes(self) -> bytes:
        """As an element; equal positions give equal ones."""
        written = io.BytesIO()
        with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in sorted(self.files.items()):
                archive.writestr(zipfile.ZipInfo(name, _ALWAYS), content, zipfile.ZIP_DEFLATED)
        return written.getvalue()

    def restore(self, folder: Path) -> None:
        """Makes a checkpoint of it in a folder that is not there yet."""
        folder.mkdir(parents=True)
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def _superfluous(names: Mapping[str, Path]) -> Iterator[str]:
    """Of files in a checkpoint those that a query which goes on does not read."""
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
            compacted = [n for n, files in batches.items() if any(map(_is_compact, files))]
            first = max(compacted, default=0)
        yield from (name for number, files in batches.items() if number < first for name in files)


def _is_compact(name: str) -> bool:
    return name.endswith(_COMPACT)
