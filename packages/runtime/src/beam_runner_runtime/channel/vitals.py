"""Liveness data of a worker process, readable without the channel and without Python's GIL.

The data is one page of a file in the process's folder, mapped into memory. The page contains a
heartbeat counter and the id of the current stage. With this page, the server distinguishes a broken
channel from C code that holds the GIL, and can name the stage of that code.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

import attrs

_FILE = "vitals"
_SIZE = 4096
_BEATS = struct.Struct("<Q")
_STAGE = struct.Struct("<512s")


@attrs.frozen
class Vitals:
    """Latest liveness data of a worker process.

    Attributes:
        beats: number of heartbeats.
        stage: id of the current or last stage; empty before the first bundle.
    """

    beats: int
    stage: str


class VitalsWriter:
    """Writer of the liveness data, in the worker process.

    Args:
        folder: folder of the process, created if missing.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        with (folder / _FILE).open("w+b") as file:
            # Allocate the memory-mapped page on disk now. Otherwise a write to the page would fail
            # if the disk is full later.
            file.write(bytes(_SIZE))
            file.flush()
            self._page = mmap.mmap(file.fileno(), _SIZE)
        self._beats = 0
        # Hold a reference to struct's function, because user code can replace the function in its
        # module later.
        self._pack = _BEATS.pack_into

    def count_heartbeat(self) -> None:
        """Increments the heartbeat counter in the vitals file."""
        self._beats += 1
        self._pack(self._page, 0, self._beats)

    def record_stage(self, stage: str) -> None:
        """Records the stage of a starting bundle in the vitals file."""
        _STAGE.pack_into(self._page, _BEATS.size, stage.encode()[: _STAGE.size])


def read_vitals(folder: Path) -> Vitals | None:
    """Returns the last liveness data in a process's folder, or None if the folder has no valid data."""
    try:
        page = (folder / _FILE).read_bytes()
        (beats,), (stage,) = _BEATS.unpack_from(page), _STAGE.unpack_from(page, _BEATS.size)
    except (OSError, struct.error):
        return None
    return Vitals(beats, stage.rstrip(b"\0").decode(errors="replace"))
