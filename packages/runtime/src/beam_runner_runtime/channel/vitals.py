"""Liveness data of a worker process. The server can read the data even if the connection is broken,
or if C code holds Python's GIL.

The data is one page of a file in the process's folder, mapped into memory. The page contains a
heartbeat counter and the id of the current stage. If the counter still increases, only the
connection is broken. If it doesn't, C code probably holds the GIL, in the recorded stage.
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
class LivenessData:
    """Latest liveness data of a worker process.

    Attributes:
        stage: id of the current or last stage; empty before the first bundle.
    """

    beats: int
    stage: str


class LivenessWriter:
    """Writer of the liveness data, in the worker process.

    Args:
        folder: folder of the process, created if missing.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        with (folder / _FILE).open("w+b") as file:
            # Allocate the page on disk now. Otherwise, a later write to the mapped page would crash
            # the process if the disk is full.
            file.write(bytes(_SIZE))
            file.flush()
            self._page = mmap.mmap(file.fileno(), _SIZE)
        self._beats = 0
        # Keep a reference to struct's function, because user code can replace the module's function later.
        self._pack = _BEATS.pack_into

    def count_heartbeat(self) -> None:
        """Increments the heartbeat counter in the vitals file."""
        self._beats += 1
        self._pack(self._page, 0, self._beats)

    def record_stage(self, stage: str) -> None:
        """Records the stage of a starting bundle in the vitals file."""
        _STAGE.pack_into(self._page, _BEATS.size, stage.encode()[: _STAGE.size])


def read_liveness(folder: Path) -> LivenessData | None:
    """Returns the last liveness data in a process's folder, or None if the folder has no valid data."""
    try:
        page = (folder / _FILE).read_bytes()
        (beats,), (stage,) = _BEATS.unpack_from(page), _STAGE.unpack_from(page, _BEATS.size)
    except (OSError, struct.error):
        return None
    return LivenessData(beats, stage.rstrip(b"\0").decode(errors="replace"))
