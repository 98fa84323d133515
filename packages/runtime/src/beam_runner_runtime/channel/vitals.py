"""Signs of life of a worker process that need neither the channel nor Python's lock to be read.

A page of a file in the process's own folder, mapped into its memory: how often one of its threads has
come round, and the stage that it works on. So a process whose channel is broken can be told from one
in which code in C holds Python's lock, and what that runs can be named.
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
    """What a process has left behind last.

    Attributes:
        beats: how often it has come round.
        stage: the id of the stage that it works on, or worked on last; empty if none.
    """

    beats: int
    stage: str


class VitalsWriter:
    """The process's end.

    Args:
        folder: the process's own, made if it is not there.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        with (folder / _FILE).open("w+b") as file:
            # A page without its place on the disk can't be written to once the disk is full.
            file.write(bytes(_SIZE))
            file.flush()
            self._page = mmap.mmap(file.fileno(), _SIZE)
        self._beats = 0
        # User code may replace what is looked up later.
        self._pack = _BEATS.pack_into

    def beat(self) -> None:
        """The process has come round."""
        self._beats += 1
        self._pack(self._page, 0, self._beats)

    def works_on(self, stage: str) -> None:
        """A stage's bundle begins."""
        _STAGE.pack_into(self._page, _BEATS.size, stage.encode()[: _STAGE.size])


def read_vitals(folder: Path) -> Vitals | None:
    """What the process with that folder has left behind; None if it has nothing there."""
    try:
        page = (folder / _FILE).read_bytes()
        (beats,), (stage,) = _BEATS.unpack_from(page), _STAGE.unpack_from(page, _BEATS.size)
    except (OSError, struct.error):
        return None
    return Vitals(beats, stage.rstrip(b"\0").decode(errors="replace"))
